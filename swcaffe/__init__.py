"""swcaffe: Caffe-compatible training whose layers run on an emulated Sunway SW26010.

Scripts written for pycaffe use it as `import swcaffe as caffe`. The names below are loaded when
first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

TRAIN, TEST = 0, 1

_HOMES = {
    "Layer": "swcaffe.pycaffe.layer",
    "Net": "swcaffe.pycaffe.net",
    **dict.fromkeys(
        (
            "AdaDeltaSolver",
            "AdaGradSolver",
            "AdamSolver",
            "NesterovSolver",
            "RMSPropSolver",
            "SGDSolver",
            "get_solver",
        ),
        "swcaffe.pycaffe.solvers",
    ),
    **dict.fromkeys(
        (
            "init_log",
            "set_device",
            "set_engine",
            "set_mode_cpu",
            "set_mode_gpu",
            "set_random_seed",
        ),
        "swcaffe.pycaffe.mode",
    ),
}

__all__ = ["TEST", "TRAIN", "__version__", "layer_type_list", *_HOMES]


def layer_type_list() -> list[str]:
    """Names of all layer types, in byte order."""
    importlib.import_module("swcaffe.layers")
    return list(importlib.import_module("swcaffe.net.layer").LAYERS)


def __getattr__(name: str) -> Any:
    """Load a public name from its home."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'swcaffe' has no attribute {name!r}")
