"""The SW26010 of Sunway TaihuLight. Each figure: value, then (kind) source.

Kinds: published (a stated property), measured (a published measurement), derived (arithmetic on
published data), assumed (our choice, with the reason).

[Fang 2019]  J. Fang, doctoral thesis, Tsinghua University, chapters 3-6
[swCaffe]    Fang et al., "swCaffe", CLUSTER 2018        [swDNN]  Fang et al., IPDPS 2017
[swATOP]     Gao et al., ICPP 2019                       [TACO]   Zhao et al., ACM TACO 2018
[Dongarra]   J. Dongarra, "Report on the Sunway TaihuLight System", 2016
"""

from __future__ import annotations

from swcaffe.machine.spec import (
    MACHINES,
    Dma,
    Kernel,
    Ldm,
    Machine,
    Mesh,
    Mpe,
    RegisterBus,
)

__all__ = ["SW26010"]

SW26010 = Machine(
    name="sw26010",
    core_groups=4,  # (published) [Dongarra]
    mesh=Mesh(
        rows=8,  # (published) [Dongarra]
        cols=8,  # (published) the same
        clock_hz=1.45e9,  # (published) [swDNN]
    ),
    ldm=Ldm(
        capacity_bytes=64 * 1024,  # (published) [swDNN]
        reserved_bytes=4 * 1024,  # (published) swGEMM's sources keep tiles under 60 KB
        alignment_bytes=32,  # (published) simd_load needs it
    ),
    dma=Dma(
        peak_bytes_per_s=28.0e9,  # (derived) reproduces the formula's curve in [Fang 2019] fig. 3.7
        start_cycles=200,  # (published) [Fang 2019] eq. 3-1
        transaction_bytes=128,  # (published) [Fang 2019], [swATOP]
    ),
    register_bus=RegisterBus(
        message_bytes=32,  # (published) one 256-bit register
        depth=4,  # (published) [TACO]: 1024-bit receive buffers
        latency_cycles=11,  # (measured) Xu et al. 2017 as quoted by [Fang 2019]
    ),
    kernel=Kernel(
        tile_m=4,  # (published) [Fang 2019] 4.2: 4 replicated scalars x 16
        tile_n=16,  # (published) the same
        cycles_per_k=16,  # (published) [Fang 2019], [swATOP]: 16 cycles for 16 multiply-adds
        tile_cycles=53,  # (derived) 16 loads + 16 stores + 5 start + 16 drain of the kernel
        lanes=4,  # (published) a 256-bit register holds 4 numbers, single or double
        vector_load_cycles=1,  # (published) [Fang 2019] table 3.2, issue cost
    ),
    mpe=Mpe(
        flops_per_s=1.45e9,  # (assumed) one scalar operation a cycle: compiled, unvectorised code
        copy_bytes_per_s=9.9e9,  # (measured) [swCaffe]
    ),
    launch_s=1e-6,  # (assumed) starting the CPEs: no published figure was found
    memory_bytes_per_s=134.4e9,  # (published) [Fang 2019]: four modules of 33.6 GB/s; others print
    # 128 to 144, all of them four times a group's: a group keeps its rate while all are busy
)
MACHINES.register("sw26010")(SW26010)
