"""Caffe's log lines of a solver; the numbers behind `solver.cpp` are those of Caffe 1.0's lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from swcaffe.arrays import Array
from swcaffe.log import number
from swcaffe.net.net import Net

__all__ = ["say", "show_outputs", "warn_of_repeats"]

log = logging.getLogger(__name__)

OUTPUT_LINES = {"Train": 258, "Test": 414}


def say(line: int, text: str, *args: object) -> None:
    """Log under the name of Caffe's solver.cpp, which its log readers know."""
    log.info(text, *args, extra={"origin": f"solver.cpp:{line}"})


def show_outputs(phase: str, net: Net, values: Mapping[int, Array]) -> dict[str, object]:
    """Log each element of each output (blob index -> values); name -> value, or list of values."""
    weights = net.blob_loss_weights()
    shown: dict[str, object] = {}
    k = 0
    for i, array in values.items():
        name, weight = net.blob_names[i], weights[i]
        for value in array:
            text = f"    {phase} net output #{k}: {name} = {number(value)}"
            if weight:
                text += f" (* {number(weight)} = {number(weight * value)} loss)"
            say(OUTPUT_LINES[phase], "%s", text)
            k += 1
        listed = [float(v) for v in array]
        shown[name] = listed[0] if len(listed) == 1 else listed
    return shown


def warn_of_repeats(net: Net, batches: int, name: str) -> None:
    """Warn if `batches` read part of a data set more often than the rest, which skews means."""
    for layer in net.layers:
        epoch = layer.epoch()
        if epoch is None or not epoch.records:
            continue
        read = batches * epoch.batch
        if read > epoch.records and (surplus := read % epoch.records):
            log.warning(
                "%s: %d batches of %d read %d of %d records once more often than the rest (layer "
                '"%s"); its means are not exact. swcaffe test --all reads each record once',
                name,
                batches,
                epoch.batch,
                surplus,
                epoch.records,
                layer.name,
            )
