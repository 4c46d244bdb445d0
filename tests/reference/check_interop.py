"""Load files with the reference Caffe and print what it read, as JSON.

Run with the reference interpreter, in the folder the files' names are relative to:

    python3.8 check_interop.py weights NET WEIGHTS        blobs after loading weights into a net
    python3.8 check_interop.py data NET                   the tops of a net's first layer, two batches
    python3.8 check_interop.py resume SOLVER STATE STEPS  blobs after restoring a state and training

A file that Caffe refuses aborts the process (exit status -6), its reason is on stderr.
"""

from __future__ import annotations

import json
import sys

import caffe

__all__ = ["blobs", "data", "resume", "weights"]


def blobs(net: caffe.Net) -> dict:
    """Every parameter of a net: {"conv/0": [shape, values]}."""
    return {
        f"{layer}/{i}": [list(blob.data.shape), blob.data.ravel().tolist()]
        for layer, params in net.params.items()
        for i, blob in enumerate(params)
    }


def weights(net: str, file: str) -> dict:
    """Blobs of `net` after copying trained weights from `file`, binary or HDF5."""
    return blobs(caffe.Net(net, caffe.TEST, weights=file))


def data(net: str) -> dict:
    """Two batches of the first layer of `net`: {"0/data": [shape, values]}."""
    found = caffe.Net(net, caffe.TEST)
    seen = {}
    for batch in range(2):
        found._forward(0, 0)
        for top in found.top_names[found._layer_names[0]]:
            values = found.blobs[top].data
            seen[f"{batch}/{top}"] = [list(values.shape), values.ravel().tolist()]
    return seen


def resume(solver: str, state: str, steps: str) -> dict:
    """Blobs of a solver's net after restoring `state` and `steps` iterations more."""
    found = caffe.get_solver(solver)
    found.restore(state)
    found.step(int(steps))
    return blobs(found.net)


if __name__ == "__main__":
    caffe.set_mode_cpu()
    command = {"weights": weights, "data": data, "resume": resume}[sys.argv[1]]
    print(json.dumps(command(*sys.argv[2:])))
