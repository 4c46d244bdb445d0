"""Ways to send less than a whole gradient, one a file, under the names users give them."""

from __future__ import annotations

import importlib
import pkgutil

from swcaffe.parallel.compressors.base import COMPRESSORS, Compressor, Gathering, State, Summing

__all__ = ["COMPRESSORS", "Compressor", "Gathering", "State", "Summing"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
