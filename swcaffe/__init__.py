"""swcaffe: Caffe-compatible training whose layers run on an emulated Sunway SW26010."""

from __future__ import annotations

__version__ = "0.1.0"
