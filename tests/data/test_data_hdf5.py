from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from swcaffe.data import hdf5
from swcaffe.data.hdf5 import Hdf5Source, read_file_list
from swcaffe.data.loader import Loader
from swcaffe.data.shard import Order
from swcaffe.errors import DataError


def save(path: Path, rows: int, first: int = 0, dtype: type = np.float32) -> Path:
    with h5py.File(path, "w") as file:
        values = first + np.arange(rows)
        file["data"] = np.tile(values[:, None], (1, 3)).astype(dtype)
        file["label"] = values.astype(dtype)
    return path


@pytest.fixture
def two_files(tmp_path):
    save(tmp_path / "f1.h5", 3, first=10)
    save(tmp_path / "f2.h5", 3, first=20)
    (tmp_path / "list.txt").write_text(f"{tmp_path}/f1.h5\n\n{tmp_path}/f2.h5\n")
    return Hdf5Source(tmp_path / "list.txt", ["data", "label"])


def labels(source: Hdf5Source, batches: int, **order: object) -> list[list[float]]:
    loader = Loader(source, Order(len(source), groups=source.groups(), **order), 4)
    found = []
    for _ in range(batches):
        batch = loader.next()
        data, label = batch.tops
        assert data.shape == (4, 3) and data.dtype == label.dtype == np.float32
        assert np.array_equal(data, np.tile(label[:, None], (1, 3)))
        found.append(label.tolist())
    loader.close()
    return found


def test_batches_run_on_over_the_ends_of_files_and_of_the_list(two_files):
    assert labels(two_files, 3) == [[10, 11, 12, 20], [21, 22, 10, 11], [12, 20, 21, 22]]


def test_a_shuffle_keeps_every_label_with_its_row_and_is_fixed_by_its_seed(two_files):
    shuffled = labels(two_files, 6, shuffle=True, seed=3)
    assert shuffled == labels(two_files, 6, shuffle=True, seed=3)
    assert shuffled != labels(two_files, 6, shuffle=True, seed=4)
    flat = np.ravel(shuffled)
    for one_pass in np.split(flat, 4):
        assert sorted(one_pass) == [10, 11, 12, 20, 21, 22]


def test_relative_paths_blank_lines_and_any_type_of_number_are_read(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    kinds = [np.uint8, np.float16, np.float64, np.int64]
    for i, kind in enumerate(kinds):
        save(folder / f"{i}.h5", rows=i + 1, first=10 * i, dtype=kind)
    (folder / "list.txt").write_text("0.h5\n\n1.h5 2.h5\r\n  \ndata/3.h5\n")
    monkeypatch.chdir(tmp_path)
    source = Hdf5Source(folder / "list.txt", ["data", "label"])
    assert source.groups() == (1, 2, 3, 4)
    read = [source.read(i) for i in range(10)]
    assert [float(r.labels[0]) for r in read] == [0, 10, 11, 20, 21, 22, 30, 31, 32, 33]
    assert all(r.data.dtype == np.float32 for r in read)
    assert read[5].key == "data/2.h5 row 2" or read[5].key.endswith("2.h5 row 2")


def test_a_file_is_read_by_blocks_that_fit_the_room(tmp_path, rng):
    rows = rng.normal(size=(5000, 300)).astype(np.float32)
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["data"] = rows
    (tmp_path / "list.txt").write_text("big.h5\n")
    source = Hdf5Source(tmp_path / "list.txt", ["data"])
    source.read(0)
    assert source._bytes <= hdf5.BLOCK_BYTES
    for i in rng.permutation(5000)[:500]:
        record = source.read(int(i))
        assert np.array_equal(record.data, rows[i])
        assert record.labels == ()


def test_old_blocks_make_room_for_new_ones(tmp_path):
    save(tmp_path / "f.h5", 100)
    (tmp_path / "list.txt").write_text("f.h5")
    names = ["data", "label"]
    source = Hdf5Source(tmp_path / "list.txt", names, block_bytes=160, room_bytes=500)
    for i in [*range(100), *range(99, -1, -1)]:
        assert float(source.read(i).labels[0]) == i
        assert source._bytes <= 500


def test_lists_that_are_missing_empty_or_name_no_file_are_errors(tmp_path):
    listing = tmp_path / "list.txt"
    with pytest.raises(DataError, match=r"list.txt: cannot read the list of files"):
        read_file_list(listing)
    listing.write_text("\n\n")
    with pytest.raises(DataError, match=r"list.txt: the list is empty"):
        read_file_list(listing)
    listing.write_text("a.h5\n")
    with pytest.raises(DataError, match=r"list.txt: a.h5: no such file, neither in"):
        read_file_list(listing)


def build(tmp_path: Path, **contents: object) -> Path:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for name, value in contents.items():
            file[name] = value
    (tmp_path / "list.txt").write_text("f.h5")
    return tmp_path / "list.txt"


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        ({"data": np.zeros((3, 2)), "lable": np.zeros(3)}, r"no dataset 'label'; it has data, lab"),
        ({"data": np.zeros((3, 2)), "label": np.zeros(4)}, r"data \(3, 2\), label \(4,\)"),
        ({"data": np.zeros((0, 2)), "label": np.zeros(0)}, r"same number of rows, not 0"),
        ({"data": np.zeros((3, 2)), "label": 1.0}, r"'label' has shape \(\)"),
        ({"data": np.zeros((3, 2)), "label": [b"a", b"b", b"c"]}, r"'label' has shape \(3,\) and"),
        ({"data": np.zeros((3, 2)), "label/x": np.zeros(3)}, r"'label' is not a dataset"),
        (
            {"data": np.zeros((3, 2)), "label": h5py.ExternalLink("other.h5", "label")},
            r"'label' is not a dataset stored in this file",
        ),
    ],
)
def test_datasets_that_do_not_serve_are_named(tmp_path, contents, text):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["label"] = np.zeros(3)
    with pytest.raises(DataError, match=text):
        Hdf5Source(build(tmp_path, **contents), ["data", "label"])


def test_data_kept_in_another_file_are_refused(tmp_path):
    (tmp_path / "raw.bin").write_bytes(b"\0" * 24)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset(
            "data", (3, 2), np.float32, external=[(str(tmp_path / "raw.bin"), 0, 24)]
        )
    (tmp_path / "list.txt").write_text("f.h5")
    with pytest.raises(DataError, match="not a dataset stored in this file"):
        Hdf5Source(tmp_path / "list.txt", ["data"])


def test_a_file_that_is_no_hdf5_and_rows_of_another_shape_are_errors(tmp_path):
    (tmp_path / "f.h5").write_bytes(b"no")
    (tmp_path / "list.txt").write_text("f.h5")
    with pytest.raises(DataError, match=r"f.h5: not a readable HDF5 file"):
        Hdf5Source(tmp_path / "list.txt", ["data"])
    save(tmp_path / "f.h5", 2)
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["data"] = np.zeros((2, 4))
    (tmp_path / "list.txt").write_text("f.h5 g.h5")
    with pytest.raises(DataError, match=r"g.h5: rows of shapes \(\(4,\),\).*\(\(3,\),\)"):
        Hdf5Source(tmp_path / "list.txt", ["data"])
