"""Caffe's messages: classes, text form, binary form, and the upgrade of old definitions."""

from __future__ import annotations

__all__: list[str] = []
