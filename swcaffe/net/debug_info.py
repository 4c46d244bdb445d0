"""The lines that `debug_info: true` prints: mean absolute values as they pass through the net."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from swcaffe.arrays import F32
from swcaffe.log import number
from swcaffe.net.wiring import Node, say

if TYPE_CHECKING:
    from swcaffe.net.net import Net

__all__ = ["debug_backward", "debug_forward", "debug_params"]

log = logging.getLogger(__name__)


def debug_forward(net: Net, node: Node) -> None:
    """Tops and parameters of a layer that has just run forward."""
    name = node.layer.name
    for blob in net.tops(node):
        value = number(blob.mean_abs_data())
        say("    [Forward] Layer %s, top blob %s data: %s", name, blob.name, value)
    for param in (p for p in net.params if p.layer is node.layer):
        value = number(param.blob.mean_abs_data())
        say("    [Forward] Layer %s, param blob %s data: %s", name, param.display_name, value)


def debug_backward(net: Net, node: Node) -> None:
    """Gradients that a layer has just computed."""
    name = node.layer.name
    for flag, blob in zip(node.propagate_down, net.bottoms(node), strict=True):
        if flag:
            value = number(blob.mean_abs_diff())
            say("    [Backward] Layer %s, bottom blob %s diff: %s", name, blob.name, value)
    for i, blob in enumerate(node.layer.blobs):
        if node.layer.param_propagate_down[i]:
            value = number(blob.mean_abs_diff())
            say("    [Backward] Layer %s, param blob %d diff: %s", name, i, value)


def _norms(arrays: Sequence[F32]) -> tuple[str, str]:
    l1 = sum(float(np.abs(a).sum()) for a in arrays)
    l2 = sum(float(np.square(a).sum()) for a in arrays) ** 0.5
    return number(l1), number(l2)


def debug_params(net: Net) -> None:
    """Norms over all learnable parameters after a backward pass."""
    data1, data2 = _norms([p.blob.data for p in net.learnable_params])
    diff1, diff2 = _norms([p.blob.diff for p in net.learnable_params])
    text = "    [Backward] All net params (data, diff): L1 norm = (%s, %s); L2 norm = (%s, %s)"
    log.error(text, data1, diff1, data2, diff2, extra={"origin": "net.cpp:1"})
