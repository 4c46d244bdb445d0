"""Finding where a NaN or infinity first appeared."""

from __future__ import annotations

import numpy as np

from swcaffe.net.net import Net

__all__ = ["first_non_finite"]


def first_non_finite(net: Net) -> str:
    """The first place, in the order of computation, that holds a NaN or infinity."""
    for node in net.nodes:
        layer = node.layer
        for blob in net.bottoms(node) if not layer.blobs else ():
            if not np.isfinite(blob.data).all():
                return f'data of blob "{blob.name}", read by {layer.title}'
        for i, blob in enumerate(layer.blobs):
            if not np.isfinite(blob.data).all():
                return f"parameter {i} of {layer.title}, changed by the last update"
        for blob in net.tops(node):
            if not np.isfinite(blob.data).all():
                return f'data of blob "{blob.name}", made by {layer.title}'
    for node in reversed(net.nodes):
        for i, blob in enumerate(node.layer.blobs):
            if not np.isfinite(blob.diff).all():
                return f"gradient of parameter {i} of {node.layer.title}"
    return "a value that is gone by now"
