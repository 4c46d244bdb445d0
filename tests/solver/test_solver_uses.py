"""Whole trainings as people write them: very old nets, many labels a picture, any thread count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value
from swcaffe.engine.engine import Engine, create_engine
from swcaffe.proto import messages
from swcaffe.solver.solver import Solver

Files = Callable[..., Path]

OLDEST = """
layers {{ layer {{ name: "data" type: "images" source: "{folder}/list.txt" batchsize: 8
  scale: 0.01 }} top: "data" top: "label" }}
layers {{ layer {{ name: "pad" type: "padding" pad: 2 }} bottom: "data" top: "padded" }}
layers {{ layer {{ name: "conv" type: "conv" num_output: 6 kernelsize: 5
  weight_filler {{ type: "xavier" }} blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 }}
  bottom: "padded" top: "conv" }}
layers {{ layer {{ name: "relu" type: "relu" }} bottom: "conv" top: "conv" }}
layers {{ layer {{ name: "pool" type: "pool" pool: MAX kernelsize: 2 stride: 2 }}
  bottom: "conv" top: "pool" }}
layers {{ layer {{ name: "ip" type: "innerproduct" num_output: 3
  weight_filler {{ type: "xavier" }} }} bottom: "pool" top: "ip" }}
layers {{ layer {{ name: "loss" type: "softmax_loss" }} bottom: "ip" bottom: "label" }}
"""


def test_a_net_in_the_oldest_format_trains(tmp_path: Path, reference_engine: Engine) -> None:
    """Case A07: padding folds into the convolution, rates and decays are kept, the loss falls."""
    rng = np.random.default_rng(3)
    lines = []
    for i in range(24):
        pixels = rng.integers(0, 60, (9, 7, 3)) + 80 * (i % 3)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{i}.png")
        lines.append(f"{tmp_path}/{i}.png {i % 3}\n")
    (tmp_path / "list.txt").write_text("".join(lines))
    (tmp_path / "net.prototxt").write_text(OLDEST.format(folder=tmp_path))
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.02 momentum: 0.9 lr_policy: "fixed" '
        "random_seed: 1"
    )
    solver = Solver.from_file(tmp_path / "solver.prototxt", reference_engine)
    assert solver.net.blob("data").shape[2:] == solver.net.blob("conv").shape[2:] == (9, 7)
    weights, bias = (p for p in solver.net.params if p.layer.name == "conv")
    assert (weights.lr_mult, weights.decay_mult) == (1, 1)
    assert (bias.lr_mult, bias.decay_mult) == (2, 0)
    losses: list[float] = []
    solver.listeners.append(lambda event: losses.append(float(str(event["loss"]))))
    solver.step(40)
    solver.close()
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


@pytest.mark.parametrize("shuffle", [False, True])
def test_results_do_not_depend_on_the_number_of_threads(files: Files, shuffle: bool) -> None:
    """Case D06: the same seed with one, two and three threads gives the same bits."""
    path = files(shuffle=shuffle)
    results = []
    for threads in (1, 2, 3):
        solver = Solver.from_file(path, create_engine("host", threads=threads))
        solver.step(6)
        results.append([p.blob.data.copy() for p in solver.net.learnable_params])
        solver.close()
    for other in results[1:]:
        for ours, first in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(ours, first)


PAIRED = """
layer {{ name: "x" type: "Data" top: "data"
  data_param {{ source: "{folder}/pictures" batch_size: 6 backend: LMDB }} }}
layer {{ name: "t" type: "Data" top: "label"
  data_param {{ source: "{folder}/labels" batch_size: 6 backend: LMDB }} }}
"""
ROWS = """
layer {{ name: "x" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param {{ source: "{folder}/list.txt" batch_size: 6 }} }}
"""
ATTRIBUTES = """
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param {{ num_output: 20 weight_filler {{ {filler} }} }} }}
layer {{ name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""


@pytest.fixture
def attributes(tmp_path: Path) -> Path:
    """Ten pictures with 20 binary labels each: as a pair of LMDBs, and as HDF5."""
    rng = np.random.default_rng(4)
    pictures = rng.integers(0, 256, (10, 1, 3, 4)).astype(np.uint8)
    labels = rng.integers(0, 2, (10, 20))
    with (
        create_database(tmp_path / "pictures") as first,
        create_database(tmp_path / "labels") as second,
    ):
        for i, (picture, row) in enumerate(zip(pictures, labels, strict=True)):
            first.put(f"{i:08d}", raw_value(picture, 0))
            datum = messages.Datum(channels=20, height=1, width=1, float_data=row.tolist())
            second.put(f"{i:08d}", datum.SerializeToString())
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["data"], file["label"] = pictures, labels
    (tmp_path / "list.txt").write_text(f"{tmp_path}/rows.h5\n")
    return tmp_path


def attribute_losses(
    folder: Path, engine: Engine, source: str, filler: str, rate: float
) -> list[float]:
    net = (source + ATTRIBUTES).format(folder=folder, filler=filler)
    (folder / "net.prototxt").write_text(net)
    path = folder / "solver.prototxt"
    path.write_text(
        f'net: "{folder}/net.prototxt" base_lr: {rate} lr_policy: "fixed" random_seed: 2'
    )
    solver = Solver.from_file(path, engine)
    losses: list[float] = []
    solver.listeners.append(lambda event: losses.append(float(str(event["loss"]))))
    solver.step(5)
    solver.close()
    return losses


def test_twenty_labels_a_picture_come_alike_from_two_databases_and_from_hdf5(
    attributes: Path, reference_engine: Engine
) -> None:
    """Case C14: 20 ln 2 at zero scores; the same training, batch for batch, from both sources."""
    for source in (PAIRED, ROWS):
        losses = attribute_losses(attributes, reference_engine, source, "value: 0", 0)
        assert losses == pytest.approx([13.86294] * 5, rel=1e-6)
    paired, rows = (
        attribute_losses(attributes, reference_engine, source, 'type: "gaussian" std: 0.01', 1e-5)
        for source in (PAIRED, ROWS)
    )
    assert paired == rows
    assert len(set(paired)) == 5
