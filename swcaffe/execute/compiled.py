"""Compiling the executors' leaves, with a cache that notices when what they inline has changed.

numba keeps machine code with the file of the compiled function and looks at that file alone. So the
names under which it keeps code carry a stamp of every file whose functions may be part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

import swcaffe.kernels

__all__ = ["leaf", "regrouped_leaf"]

_njit: Any = njit  # its annotations describe dispatchers; ours, what the functions compute
Function = TypeVar("Function", bound=Callable[..., Any])


def _stamp() -> str:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    states = [(path.name, path.stat()) for path in (*files, Path(swcaffe.kernels.__file__))]
    text = repr([(name, state.st_mtime_ns, state.st_size) for name, state in states])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


_STAMP = _stamp()


def _compile(function: Function, **options: object) -> Function:
    function.__qualname__ = f"{function.__qualname__}_{_STAMP}"
    made: Function = _njit(nogil=True, cache=True, **options)(function)
    return made


def leaf(function: Function) -> Function:
    """Compile without the interpreter's lock; results are kept on disk."""
    return _compile(function)


def regrouped_leaf(function: Function) -> Function:
    """`leaf`, and sums may be added up in any grouping, which vectorises them."""
    return _compile(function, fastmath={"reassoc"})
