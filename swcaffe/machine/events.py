"""What running a program does to a machine, as integers: the same for counting and for executing.

A Counters value is summed over all CPEs of a core group, except `ldm_peak_bytes`, which is the
largest use on any one CPE. `kernels` counts calls per CPE program, not per CPE.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """Events of one run.

    dma_get_bytes, dma_put_bytes  payload
    dma_transactions              memory transactions touched, whole or in part
    dma_descriptors               requests issued
    row_messages, col_messages    registers sent over row and column buses (a broadcast is one)
    flops                         floating-point operations of the matrix kernels, padding included
    kernels                       (intrinsic, block sizes) -> calls
    """

    dma_get_bytes: int = 0
    dma_put_bytes: int = 0
    dma_transactions: int = 0
    dma_descriptors: int = 0
    row_messages: int = 0
    col_messages: int = 0
    flops: int = 0
    ldm_peak_bytes: int = 0
    kernels: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)

    @property
    def dma_bytes(self) -> int:
        """Payload in both directions."""
        return self.dma_get_bytes + self.dma_put_bytes

    def kernel(self, name: str, sizes: tuple[int, ...], times: int = 1) -> None:
        """Book `times` calls of an intrinsic with these block sizes."""
        key = (name, sizes)
        self.kernels[key] = self.kernels.get(key, 0) + times

    def add(self, other: Counters, times: int = 1) -> None:
        """Add `times` repetitions of `other`; the LDM peak is a maximum."""
        for item in fields(self):
            if item.name not in ("kernels", "ldm_peak_bytes"):
                total = getattr(self, item.name) + times * getattr(other, item.name)
                setattr(self, item.name, total)
        self.ldm_peak_bytes = max(self.ldm_peak_bytes, other.ldm_peak_bytes)
        for (name, sizes), calls in other.kernels.items():
            self.kernel(name, sizes, calls * times)

    def differences(self, other: Counters) -> list[str]:
        """One line for each count that differs."""
        return [
            f"{item.name}: {getattr(self, item.name)} != {getattr(other, item.name)}"
            for item in fields(self)
            if getattr(self, item.name) != getattr(other, item.name)
        ]
