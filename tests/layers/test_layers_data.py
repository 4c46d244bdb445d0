"""Data layers: records in order, sharded, transformed, resumed; feeding and filling by hand."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers import OneLayer, assert_near
from reference.load import cases

from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value
from swcaffe.data.image import encode
from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, ParameterError, ShapeError, SwcaffeError
from swcaffe.layers.memory_data import MemoryData
from swcaffe.net.layer import Phase


def pixels(i: int) -> np.ndarray:
    return (np.arange(2 * 4 * 5).reshape(2, 4, 5) + 3 * i).astype(np.uint8)


@pytest.fixture
def lmdb(tmp_path: Path) -> Path:
    path = tmp_path / "db"
    with create_database(path) as database:
        for i in range(10):
            database.put(f"{i:08d}", raw_value(pixels(i), i % 3))
    return path


def data_layer(
    source: Path | str, more: str = "", *, fields: str = "", batch: int = 4, tops: int = 2
) -> str:
    """`fields` go into data_param, `more` beside it."""
    names = 'top: "data" top: "label"' if tops == 2 else 'top: "data"'
    return (
        f'layer {{ name: "in" type: "Data" {names} data_param {{ source: "{source}" '
        f"batch_size: {batch} backend: LMDB {fields} }} {more} }}"
    )


def indices(tops: list[np.ndarray]) -> list[int]:
    """Numbers of the records in a batch of `pixels`."""
    return [int(item[0, 0, 0]) // 3 for item in tops[0]]


def test_records_come_in_key_order_and_wrap(lmdb: Path, reference_engine: Engine) -> None:
    one = OneLayer(data_layer(lmdb), [], reference_engine)
    assert [top.shape for top in one.tops] == [(4, 2, 4, 5), (4,)]
    batches = [one.forward() for _ in range(3)]
    assert [indices(b) for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    assert batches[0][1].tolist() == [0, 1, 2, 0]
    assert np.array_equal(batches[0][0][2], pixels(2))
    assert one.layer.records == ["00000008", "00000009", "00000000", "00000001"]
    one.layer.close()


def test_a_top_for_labels_may_be_missing(lmdb: Path, reference_engine: Engine) -> None:
    one = OneLayer(data_layer(lmdb, tops=1), [], reference_engine)
    assert indices(one.forward()) == [0, 1, 2, 3]
    one.layer.close()


@pytest.mark.parametrize(
    ("phase", "expected"), [(Phase.TRAIN, [1, 3, 5, 7]), (Phase.TEST, [0, 1, 2, 3])]
)
def test_ranks_share_the_records_in_training_only(
    phase: Phase, expected: list[int], lmdb: Path, reference_engine: Engine
) -> None:
    one = OneLayer(data_layer(lmdb), [], reference_engine, phase=phase, rank=1, size=2)
    assert indices(one.forward()) == expected
    one.layer.close()


@pytest.mark.parametrize("shuffle", ["", "shuffle: true"])
def test_a_resumed_layer_goes_on_behind_the_items_consumed(
    shuffle: str, lmdb: Path, reference_engine: Engine
) -> None:
    text = data_layer(
        lmdb, "transform_param { mirror: true crop_size: 3 scale: 0.5 }", fields=shuffle
    )
    whole = OneLayer(text, [], reference_engine)
    before = [whole.forward() for _ in range(3)]
    state = whole.layer.state()
    after = [whole.forward() for _ in range(4)]
    resumed = OneLayer(text, [], reference_engine)
    resumed.layer.load_state(state)
    for ours in after:
        for a, b in zip(resumed.forward(), ours, strict=True):
            assert np.array_equal(a, b)
    assert int(state["position"]) == 12  # what was read ahead does not count
    assert not all(np.array_equal(a[0], b[0]) for a, b in zip(before, after, strict=False))
    for one in (whole, resumed):
        one.layer.close()


def test_a_shuffle_depends_on_the_seed_alone(lmdb: Path, reference_engine: Engine) -> None:
    text = data_layer(lmdb, fields="shuffle: true", batch=10)
    seen = []
    for seed in (1, 1, 2):
        one = OneLayer(text, [], reference_engine, seed=seed)
        seen.append(indices(one.forward()) + indices(one.forward()))
        one.layer.close()
    assert seen[0] == seen[1] != seen[2]
    assert sorted(seen[0][:10]) == sorted(seen[0][10:]) == list(range(10))
    assert seen[0][:10] != seen[0][10:]


def test_values_are_transformed(lmdb: Path, reference_engine: Engine) -> None:
    more = "transform_param { mean_value: 103.94 scale: 0.017 crop_size: 2 }"
    one = OneLayer(data_layer(lmdb, more), [], reference_engine, phase=Phase.TEST)
    expected = (pixels(1)[:, 1:3, 1:3].astype(np.float64) - 103.94) * 0.017
    assert_near(one.forward()[0][1], expected, 1e-6)
    one.layer.close()


def test_a_pass_gives_each_record_once_and_then_nothing(
    lmdb: Path, reference_engine: Engine
) -> None:
    one = OneLayer(data_layer(lmdb), [], reference_engine)
    epoch = one.layer.epoch()
    assert (epoch.records, epoch.batch) == (10, 4)
    assert indices(one.forward()) == [0, 1, 2, 3]
    one.layer.start_pass()
    seen = []
    for left in (10, 6, 2, 0):
        assert one.layer.left() == left
        seen.append(indices(one.forward()))
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    one.layer.close()


def test_close_ends_the_reader_threads(lmdb: Path, reference_engine: Engine) -> None:
    before = threading.active_count()
    one = OneLayer(data_layer(lmdb), [], reference_engine)
    one.forward()
    assert threading.active_count() > before
    assert "4 items" in one.layer.summary()
    assert one.layer.wait_s >= 0
    one.layer.close()
    assert threading.active_count() == before


def test_sorted_classes_are_warned_about(
    tmp_path: Path, reference_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with create_database(tmp_path / "db") as database:
        for i in range(40):
            database.put(f"class{i // 20}/{i}", raw_value(pixels(i), i // 20))
    one = OneLayer(data_layer(tmp_path / "db", batch=16), [], reference_engine)
    with caplog.at_level(logging.WARNING, "swcaffe"):
        one.forward()
    assert "the first 16 labels are one class" in caplog.text
    one.layer.close()


def test_fields_that_moved_are_warned_about(
    lmdb: Path, reference_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "swcaffe"):
        OneLayer(data_layer(lmdb, fields="scale: 0.1"), [], reference_engine).layer.close()
    assert "scale of data_param has no effect; move it to transform_param" in caplog.text


BAD_DATA = {
    "transform_param { force_color: true force_gray: true }": "both force_color and force_gray",
    "transform_param { crop_size: 9 }": "crop_size 9 is larger than the image of 4 x 5",
    "transform_param { mean_value: 1 mean_value: 2 mean_value: 3 }": "3 values of mean_value",
    'transform_param { mean_file: "x" mean_value: 2 }': "both mean_file",
    'transform_param { mean_file: "/no/such.binaryproto" }': "such.binaryproto",
}


@pytest.mark.parametrize("more", BAD_DATA)
def test_wrong_databases_are_refused(more: str, lmdb: Path, reference_engine: Engine) -> None:
    with pytest.raises(SwcaffeError, match=BAD_DATA[more]):
        OneLayer(data_layer(lmdb, more), [], reference_engine)


def test_a_missing_database_or_batch_size_is_named(lmdb: Path, reference_engine: Engine) -> None:
    with pytest.raises(DataError, match="/no/such/db"):
        OneLayer(data_layer("/no/such/db"), [], reference_engine)
    with pytest.raises(ParameterError, match="batch_size is missing or 0"):
        OneLayer(data_layer(lmdb, batch=0), [], reference_engine)
    with pytest.raises(DataError, match="is an LMDB database, but backend is LEVELDB"):
        OneLayer(data_layer(lmdb).replace("backend: LMDB", ""), [], reference_engine)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "dir with space"
    folder.mkdir()
    for i in range(6):
        picture = np.full((3, 4, 5), 40 * i, np.uint8)
        picture[0] += 1  # blue
        (folder / f"图 {i}.png").write_bytes(encode(picture, "png"))
    lines = [f"图 {i}.png {i}" for i in range(6)]
    (tmp_path / "list.txt").write_text(" \r\n".join(lines) + "\n\n", encoding="utf-8")
    return tmp_path


def image_layer(root: Path, more: str = "", batch: int = 3) -> str:
    return (
        'layer { name: "in" type: "ImageData" top: "data" top: "label" image_data_param { '
        f'source: "{root}/list.txt" root_folder: "{root}/dir with space/" batch_size: {batch} '
        f"{more} }} }}"
    )


def test_listed_pictures_are_read_from_paths_with_blanks(
    pictures: Path, reference_engine: Engine
) -> None:
    one = OneLayer(image_layer(pictures), [], reference_engine)
    data, labels = one.forward()
    assert data.shape == (3, 3, 4, 5)
    assert labels.tolist() == [0, 1, 2]
    assert data[2, :, 0, 0].tolist() == [81, 80, 80]
    one.layer.close()
    grey = image_layer(pictures, "is_color: false new_height: 2 new_width: 3")
    one = OneLayer(grey, [], reference_engine)
    assert one.forward()[0].shape == (3, 1, 2, 3)
    one.layer.close()


def test_listed_pictures_are_shuffled_or_begun_at_random(
    pictures: Path, reference_engine: Engine
) -> None:
    one = OneLayer(image_layer(pictures, "shuffle: true", batch=6), [], reference_engine)
    first, second = one.forward()[1].tolist(), one.forward()[1].tolist()
    assert sorted(first) == sorted(second) == list(range(6))
    assert first != second
    one.layer.close()
    starts = set()
    for seed in range(12):
        one = OneLayer(image_layer(pictures, "rand_skip: 5"), [], reference_engine, seed=seed)
        starts.add(int(one.forward()[1][0]))
        one.layer.close()
    assert len(starts) > 2
    assert max(starts) < 5
    with pytest.raises(ParameterError, match="rand_skip 6"):
        OneLayer(image_layer(pictures, "rand_skip: 6"), [], reference_engine)


def test_bad_pictures_end_the_run_or_are_left_out(pictures: Path, reference_engine: Engine) -> None:
    (pictures / "dir with space" / "图 1.png").write_bytes(b"")
    (pictures / "dir with space" / "图 4.png").unlink()
    one = OneLayer(image_layer(pictures), [], reference_engine)
    with pytest.raises(DataError, match=r"图 1\.png"):
        one.forward()
    one.layer.close()
    one = OneLayer(image_layer(pictures, batch=2), [], reference_engine, bad_records="skip")
    labels = np.concatenate([one.forward()[1] for _ in range(4)])
    assert labels.tolist() == [0, 2, 3, 5, 0, 2, 3, 5]
    assert "bad records skipped" in one.layer.summary()
    one.layer.close()


def hdf5_layer(source: Path, more: str, tops: tuple[str, ...] = ("data", "label")) -> str:
    names = " ".join(f'top: "{top}"' for top in tops)
    return (
        f'layer {{ name: "in" type: "HDF5Data" {names} '
        f'hdf5_data_param {{ source: "{source}" {more} }} }}'
    )


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for f, (count, kind) in enumerate([(3, "u1"), (3, "f2")]):
        with h5py.File(tmp_path / f"{f}.h5", "w") as file:
            values = 10 * f + np.arange(count)
            file["data"] = np.repeat(values[:, None], 2, axis=1).astype(kind)
            file["label"] = values.astype("f8")
    (tmp_path / "list.txt").write_text("0.h5\n\n1.h5\n")
    return tmp_path / "list.txt"


def test_rows_stream_over_the_ends_of_files(rows: Path, reference_engine: Engine) -> None:
    one = OneLayer(hdf5_layer(rows, "batch_size: 4"), [], reference_engine)
    seen = [one.forward() for _ in range(3)]
    assert [b[1].tolist() for b in seen] == [[0, 1, 2, 10], [11, 12, 0, 1], [2, 10, 11, 12]]
    for data, label in seen:
        assert np.array_equal(data, np.repeat(label[:, None], 2, axis=1))
    one.layer.close()


def test_shuffled_rows_keep_their_labels(rows: Path, reference_engine: Engine) -> None:
    one = OneLayer(hdf5_layer(rows, "batch_size: 6 shuffle: true"), [], reference_engine)
    orders = []
    for _ in range(6):
        data, label = one.forward()
        assert np.array_equal(data[:, 0], label)
        assert sorted(label) == [0, 1, 2, 10, 11, 12]
        assert len({int(v) // 10 for v in label[:3]}) == 1  # files stay together
        orders.append(tuple(label))
    assert len(set(orders)) > 2
    one.layer.close()


def test_hdf5_refuses_a_transformation_and_unknown_datasets(
    rows: Path, reference_engine: Engine
) -> None:
    text = hdf5_layer(rows, "batch_size: 1")
    with pytest.raises(ParameterError, match="does not transform"):
        OneLayer(
            text.replace("hdf5_data_param", "transform_param {} hdf5_data_param"),
            [],
            reference_engine,
        )
    with pytest.raises(DataError, match="no dataset 'other'"):
        OneLayer(hdf5_layer(rows, "batch_size: 1", ("other",)), [], reference_engine)


@pytest.mark.parametrize("case", cases("HDF5Data"), ids=str)
def test_hdf5_equals_the_reference_caffe(case, tmp_path: Path, reference_engine: Engine) -> None:
    for key, values in case.extra.items():
        number, name = key.split("/")
        with h5py.File(tmp_path / f"{number}.h5", "a") as file:
            file[name] = values
    names = sorted({key.split("/")[0] for key in case.extra})
    (tmp_path / "list.txt").write_text("\n".join(f"{tmp_path}/{n}.h5" for n in names))
    text = case.prototxt.replace("SOURCE", str(tmp_path / "list.txt"))
    one = OneLayer(text, [], reference_engine, phase=Phase[case.phase])
    for step in case.steps:
        for ours, theirs in zip(one.forward(), step.tops, strict=True):
            assert np.array_equal(ours, theirs)
            assert ours.shape == theirs.shape
    one.layer.close()


@pytest.mark.parametrize("case", cases("MemoryData"), ids=str)
def test_memory_equals_the_reference_caffe(case, reference_engine: Engine) -> None:
    one = OneLayer(case.prototxt, [], reference_engine, phase=Phase[case.phase])
    one.layer.feed(case.extra["data"], case.extra["label"])
    for step in case.steps:
        for ours, theirs in zip(one.forward(), step.tops, strict=True):
            assert np.array_equal(ours, theirs)
            assert ours.shape == theirs.shape


MEMORY = (
    'layer { name: "in" type: "MemoryData" top: "data" top: "label" '
    "memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }"
)


def test_memory_checks_what_it_is_fed(
    reference_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    one = OneLayer(MEMORY, [], reference_engine)
    layer = one.layer
    assert isinstance(layer, MemoryData)
    with pytest.raises(DataError, match="has no data"):
        one.forward()
    data = np.arange(12, dtype=np.float32).reshape(4, 1, 1, 3)
    with pytest.raises(ShapeError, match="3 items are no multiple of batch_size 2"):
        layer.feed(data[:3], np.zeros(3, np.float32))
    with pytest.raises(ShapeError, match=r"data has shape \(4, 3\)"):
        layer.feed(data.reshape(4, 3), np.zeros(4, np.float32))
    with pytest.raises(ShapeError, match="3 labels for 4 items"):
        layer.feed(data, np.zeros(3, np.float32))
    layer.feed(data, np.arange(4, dtype=np.float32))
    one.forward()
    twin = OneLayer(MEMORY, [], reference_engine)
    twin.layer.feed(data, np.arange(4, dtype=np.float32))
    twin.layer.load_state(layer.state())
    assert np.array_equal(twin.forward()[0], one.forward()[0])
    layer.set_batch_size(4, one.tops)
    layer.feed(data, np.arange(4, dtype=np.float32))
    assert np.array_equal(one.forward()[0], data)
    with pytest.raises(ParameterError, match="batch_size 0"):
        layer.set_batch_size(0, one.tops)
    with pytest.raises(ParameterError, match="width is missing"):
        OneLayer(MEMORY.replace("width: 3", ""), [], reference_engine)
    with caplog.at_level(logging.WARNING, "swcaffe"):
        warned = OneLayer(
            MEMORY.replace("memory_data", "transform_param {} memory_data"), [], reference_engine
        )
        warned.layer.feed(data, np.zeros(4, np.float32))
    assert "arrays are not transformed" in caplog.text


def dummy(text: str, tops: int = 1) -> str:
    names = " ".join(f'top: "t{i}"' for i in range(tops))
    return f'layer {{ name: "in" type: "DummyData" {names} dummy_data_param {{ {text} }} }}'


def test_constants_are_filled_once_and_draws_are_new_each_time(reference_engine: Engine) -> None:
    text = (
        "shape { dim: 2 } shape { dim: 3 } "
        'data_filler { type: "constant" value: 2 } data_filler { type: "uniform" }'
    )
    one = OneLayer(dummy(text, 2), [], reference_engine)
    constant, first = one.forward()
    assert constant.tolist() == [2, 2]
    one.tops[0].data.fill(9)
    again, second = one.forward()
    assert again.tolist() == [9, 9]  # the caller's values persist
    assert not np.array_equal(first, second)
    twin = OneLayer(dummy(text, 2), [], reference_engine)
    assert np.array_equal(twin.forward()[1], first)
    twin.layer.load_state(one.layer.state())
    assert np.array_equal(twin.forward()[1], one.forward()[1])


BAD_DUMMY = {
    "shape { dim: 1 } num: 1 channels: 1 height: 1 width: 1": "both shape and num",
    "shape { dim: 1 } shape { dim: 1 }": "2 shapes for 3 tops",
    "num: 1 num: 1 channels: 1 height: 1 width: 1": "num is given 2 times for 3 tops",
    "num: 1 channels: 1 height: 1": "width is given 0 times",
    "shape { dim: 1 } data_filler {} data_filler {}": "2 data_filler entries for 3 tops",
}


@pytest.mark.parametrize("text", BAD_DUMMY)
def test_wrong_dummies_are_refused(text: str, reference_engine: Engine) -> None:
    with pytest.raises(ParameterError, match=BAD_DUMMY[text]):
        OneLayer(dummy(text, 3), [], reference_engine)
