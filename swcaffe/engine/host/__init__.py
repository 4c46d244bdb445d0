"""The host engine: every operator on this computer's CPU, compiled for its vector unit."""

from __future__ import annotations

from swcaffe.engine.host.engine import HostEngine, create

__all__ = ["HostEngine", "create"]
