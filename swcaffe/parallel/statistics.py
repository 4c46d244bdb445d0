"""What an exchange cost: bytes and seconds by phase, and whether compressing was worth it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["PHASES", "Statistics"]

PHASES = ("encode", "communicate", "decode", "wait")
"""In the exchanging thread: encode, communicate, decode. In the caller's: wait."""


@dataclass
class Statistics:
    """Sums since the last reset.

    dense_bytes  what each rank would have sent without compression
    sent_bytes   what it sent; headers and lengths included
    """

    dense_bytes: int = 0
    sent_bytes: int = 0
    iterations: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time inside to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start

    @property
    def exchange_s(self) -> float:
        """Time of the exchanging thread."""
        return sum(self.seconds.values()) - self.seconds["wait"]

    @property
    def dense_s(self) -> float:
        """Estimate: dense bytes at the rate at which bytes were sent."""
        return self.seconds["communicate"] * self.dense_bytes / max(1, self.sent_bytes)

    @property
    def pays(self) -> bool:
        """Whether the exchange took less than the estimate of the dense one."""
        return self.exchange_s < self.dense_s

    def report(self) -> str:
        """One line for the log."""
        n = max(1, self.iterations)
        phases = ", ".join(f"{name} {1e3 * s / n:.3g} ms" for name, s in self.seconds.items())
        text = f"{self.dense_bytes / n:.0f} B dense, {self.sent_bytes / n:.0f} B sent, {phases}"
        if self.sent_bytes < self.dense_bytes and not self.pays:
            text += (
                f"; compression does not pay: {1e3 * self.exchange_s / n:.3g} ms, "
                f"about {1e3 * self.dense_s / n:.3g} ms dense"
            )
        return text
