"""Update rules, one file each, under the names that a solver's `type` gives them."""

from __future__ import annotations

import importlib
import pkgutil

from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["UPDATE_RULES", "UpdateRule"]

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")
