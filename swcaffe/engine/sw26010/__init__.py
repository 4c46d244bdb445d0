"""The emulated SW26010: operators become verified tensor programs, run at one of two fidelities."""

from __future__ import annotations

from swcaffe.engine.sw26010.engine import SunwayEngine, create

__all__ = ["SunwayEngine", "create"]
