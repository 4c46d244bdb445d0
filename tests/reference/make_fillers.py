"""Draw from every filler of the reference Caffe and write fillers.json.

Run with the reference interpreter (README.md):

    GLOG_minloglevel=2 python3.8 tests/reference/make_fillers.py

The generators differ between implementations, so distributions are recorded: mean, standard
deviation, share of zeros and quantiles of many draws, and for bilinear and constant the values.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import caffe
import numpy as np

HERE = Path(__file__).resolve().parent
DRAWS = 400_000
QUANTILES = np.linspace(0, 1, 33)
CASES = {
    "constant": ('type: "constant" value: 0.5', (3, 4)),
    "uniform": ('type: "uniform" min: -0.5 max: 2', (20, 50)),
    "gaussian": ('type: "gaussian" mean: 1 std: 0.5', (20, 50)),
    "gaussian_sparse": ('type: "gaussian" std: 2 sparse: 3', (12, 50)),
    "positive_unitball": ('type: "positive_unitball"', (20, 10)),
    "xavier": ('type: "xavier"', (20, 5, 3, 2)),
    "xavier_fan_out": ('type: "xavier" variance_norm: FAN_OUT', (20, 5, 3, 2)),
    "xavier_average": ('type: "xavier" variance_norm: AVERAGE', (20, 5, 3, 2)),
    "xavier_one_axis": ('type: "xavier"', (64,)),
    "msra": ('type: "msra"', (20, 5, 3, 2)),
    "msra_fan_out": ('type: "msra" variance_norm: FAN_OUT', (20, 5, 3, 2)),
    "msra_average": ('type: "msra" variance_norm: AVERAGE', (20, 5, 3, 2)),
    "bilinear_odd": ('type: "bilinear"', (2, 1, 5, 5)),
    "bilinear_even": ('type: "bilinear"', (1, 2, 4, 4)),
}


def draw(text: str, shape: tuple) -> np.ndarray:
    """(passes, *shape): DummyData fills its top anew in every forward pass."""
    dims = " ".join(f"dim: {dim}" for dim in shape)
    net_text = (
        f'layer {{ name: "l" type: "DummyData" top: "t" '
        f"dummy_data_param {{ shape {{ {dims} }} data_filler {{ {text} }} }} }}"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(net_text)
        file.flush()
        net = caffe.Net(file.name, caffe.TRAIN)
    passes = max(1, DRAWS // int(np.prod(shape)))
    found = np.empty((passes, *shape), dtype=np.float32)
    for number in range(passes):
        net.forward()
        found[number] = net.blobs["t"].data
    return found


def main() -> None:
    """Write fillers.json."""
    caffe.set_random_seed(1701)
    table = {}
    for name, (text, shape) in CASES.items():
        drawn = draw(text, shape)
        values = drawn.astype(np.float64).ravel()
        table[name] = {
            "filler": text,
            "shape": shape,
            "draws": values.size,
            "mean": values.mean(),
            "std": values.std(),
            "zeros": float((values == 0).mean()),
            "sum_of_first_axis": drawn[0].reshape(shape[0], -1).sum(axis=1).tolist(),
            "quantiles": np.quantile(values, QUANTILES).tolist(),
        }
        if name.startswith(("bilinear", "constant")):
            table[name]["values"] = drawn[0].tolist()
    text = json.dumps(table, indent=1)
    (HERE / "fillers.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
