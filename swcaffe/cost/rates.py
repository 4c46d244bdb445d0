"""Counts -> seconds by the machine's curves: a copy, a kernel call, an operator on the MPE."""

from __future__ import annotations

from dataclasses import replace

from swcaffe.cost.constants import DESCRIPTOR_ISSUE, MPE_BYTES, SINGLE_CPE_DMA
from swcaffe.cost.count import CopyCount
from swcaffe.ir.intrinsic import Work
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator

__all__ = ["copy_seconds", "group_of", "mpe_seconds", "work_seconds"]


def copy_seconds(machine: Machine, copy: CopyCount, times: int) -> tuple[float, float]:
    """(latency, transfer) of one of `times` copies that `copy` counts together.

    Fang 2019, eq. 3-1 and 3-2: t = t_lat + sum(block + waste) / (PEAK / CPEs), where block + waste
    is whole transactions. The CPE with most of them decides, unless the memory saturates first.
    """
    if not copy.elements:
        return 0.0, 0.0
    line = machine.dma.transaction_bytes
    extra = (copy.most_descriptors / times - 1) * DESCRIPTOR_ISSUE.value
    latency = (machine.dma.start_cycles + extra) / machine.mesh.clock_hz
    shared = copy.transactions * line / machine.dma.peak_bytes_per_s
    alone = copy.most_transactions * line / SINGLE_CPE_DMA.value
    return latency, max(shared, alone) / times


def group_of(machine: Machine, active: int) -> Machine:
    """The machine as one core group sees it while `active` of them use the memory."""
    share = machine.memory_bytes_per_s / active
    peak = min(machine.dma.peak_bytes_per_s, share)
    return replace(machine, dma=replace(machine.dma, peak_bytes_per_s=peak))


def work_seconds(machine: Machine, work: Work) -> float:
    """Time of one kernel call on the busiest CPE."""
    return work.cycles / machine.mesh.clock_hz


def mpe_seconds(machine: Machine, op: Operator) -> tuple[float, float]:
    """(arithmetic, memory) of an operator on the MPE: which is larger, it takes."""
    nbytes = sum(operand.nbytes for operand in (*op.inputs, *op.outputs))
    memory = nbytes * MPE_BYTES.value / machine.mpe.copy_bytes_per_s
    return op.flops / machine.mpe.flops_per_s, memory
