"""HDF5Output: what the file holds, and when it is whole."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers import OneLayer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, ParameterError, ShapeError


def output(path: Path, shape: tuple[int, ...], engine: Engine) -> OneLayer:
    text = layer_text("HDF5Output", f'hdf5_output_param {{ file_name: "{path}" }}', 2, 0)
    return OneLayer(text, [np.zeros(shape), np.zeros(shape[0])], engine)


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with h5py.File(path, "r") as file:
        assert sorted(file) == ["data", "label"]
        return file["data"][...], file["label"][...]


def test_every_pass_adds_its_items_and_leaves_the_file_whole(
    tmp_path: Path, reference_engine: Engine, rng
) -> None:
    path = tmp_path / "out.h5"
    path.write_bytes(b"something else")
    one = output(path, (2, 3), reference_engine)
    x = rng.normal(size=(5, 3)).astype(np.float32)
    for first, last in ((0, 2), (2, 5)):
        one.forward(x[first:last], np.arange(first, last))
        data, label = read(path)
        assert np.array_equal(data, x[:last].reshape(last, 3, 1, 1))
        assert np.array_equal(label, np.arange(last).reshape(last, 1, 1, 1))
        assert data.dtype == label.dtype == np.float32


def test_a_new_net_replaces_the_file(tmp_path: Path, reference_engine: Engine) -> None:
    for n in (4, 2):
        output(tmp_path / "out.h5", (n, 3, 2, 2), reference_engine).forward()
        assert read(tmp_path / "out.h5")[0].shape == (n, 3, 2, 2)


def test_it_gives_no_gradient(tmp_path: Path, reference_engine: Engine) -> None:
    one = output(tmp_path / "out.h5", (2, 3), reference_engine)
    assert not np.any(one.backward(flags=[True, False])[0])


def test_files_that_cannot_be_written_are_named(tmp_path: Path, reference_engine: Engine) -> None:
    one = output(tmp_path / "none" / "out.h5", (2, 3), reference_engine)
    with pytest.raises(DataError, match=r"cannot write .*none/out\.h5"):
        one.forward()
    one = output(tmp_path / "out.h5", (2, 3), reference_engine)
    one.forward()
    with pytest.raises(ShapeError, match=r"shape \(4, 1, 1\) do not fit dataset data"):
        one.forward(np.zeros((2, 4)), np.zeros(2))
    (tmp_path / "out.h5").unlink()
    with pytest.raises(DataError, match="cannot add to"):
        one.forward(np.zeros((2, 3)), np.zeros(2))


def test_wrong_parameters_and_batches_are_refused(tmp_path: Path, reference_engine: Engine) -> None:
    with pytest.raises(ParameterError, match="no file to write"):
        OneLayer(layer_text("HDF5Output", "", 2, 0), [np.zeros(2)] * 2, reference_engine)
    one = output(tmp_path / "out.h5", (2, 3), reference_engine)
    with pytest.raises(ShapeError, match="differ in the number of items"):
        one.feed([np.zeros((2, 3)), np.zeros(3)])
