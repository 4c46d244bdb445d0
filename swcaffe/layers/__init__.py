"""What each prototxt `type` means: one file, one class. Importing this package registers all."""

from __future__ import annotations

import importlib
import pkgutil

__all__: list[str] = []

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
