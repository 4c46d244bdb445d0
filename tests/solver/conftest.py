"""A small net on a small database, with everything that has state: order, mirror, dropout."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value

NET = """
name: "small"
layer {{ name: "data" type: "Data" top: "data" top: "label"
  transform_param {{ scale: 0.00390625 mirror: true }}
  data_param {{ source: "{folder}/db" batch_size: {batch} backend: LMDB shuffle: {shuffle} }} }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param {{ num_output: 4 kernel_size: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "relu" type: "ReLU" bottom: "pool" top: "pool" }}
layer {{ name: "drop" type: "Dropout" bottom: "pool" top: "pool"
  dropout_param {{ dropout_ratio: {dropout} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  include {{ phase: TEST }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""

SOLVER = """
net: "{folder}/net.prototxt"
base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 lr_policy: "step" gamma: 0.5 stepsize: 7
display: 1 max_iter: 20 average_loss: 4 random_seed: 5
snapshot_prefix: "{folder}/out/run"
"""

Files = Callable[..., Path]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes a database of 37 records, the net and a solver; returns the solver's path."""
    rng = np.random.default_rng(9)
    with create_database(tmp_path / "db") as database:
        for i in range(37):
            label = i % 3
            image = rng.integers(0, 120, (1, 8, 8)) + 60 * label
            database.put(f"{i:08d}", raw_value(image.astype(np.uint8), label))

    def write(
        extra: str = "",
        *,
        batch: int = 6,
        shuffle: bool = True,
        dropout: float = 0.4,
        drop: str = "",
        name: str = "solver",
    ) -> Path:
        text = NET.format(
            folder=tmp_path, batch=batch, shuffle=str(shuffle).lower(), dropout=dropout
        )
        (tmp_path / "net.prototxt").write_text(text)
        lines = SOLVER.format(folder=tmp_path)
        for field in drop.split():
            lines = re.sub(rf"\b{field}: \S+", "", lines)
        path = tmp_path / f"{name}.prototxt"
        path.write_text(lines + extra)
        return path

    return write
