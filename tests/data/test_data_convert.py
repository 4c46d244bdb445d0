from __future__ import annotations

import gzip
import logging
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from swcaffe.data import convert_cifar
from swcaffe.data.convert_cifar import convert_cifar_data
from swcaffe.data.convert_imageset import convert_imageset
from swcaffe.data.convert_mnist import convert_mnist_data, parse_idx, read_idx, write_idx
from swcaffe.data.database import create_database
from swcaffe.data.datum import encoded_value, raw_value
from swcaffe.data.image import encode
from swcaffe.data.lmdb import LmdbSource
from swcaffe.data.mean import compute_image_mean, read_mean
from swcaffe.errors import DataError
from swcaffe.proto import messages


def entries(path: Path) -> list[tuple[str, messages.Message]]:
    with LmdbSource(path) as source:
        found = [source.entry(i) for i in range(len(source))]
    return [(key.decode(), messages.Datum.FromString(value)) for key, value in found]


# -- MNIST -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
def test_idx_files_become_datums_with_eight_digit_keys(tmp_path, rng, compress):
    images = rng.integers(0, 256, (12, 4, 5)).astype(np.uint8)
    labels = rng.integers(0, 10, 12).astype(np.uint8)
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels", labels)
    if compress:
        for name in ("images", "labels"):
            path = tmp_path / name
            path.write_bytes(gzip.compress(path.read_bytes()))
    assert convert_mnist_data(tmp_path / "images", tmp_path / "labels", tmp_path / "db") == 12
    for i, (key, datum) in enumerate(entries(tmp_path / "db")):
        assert key == f"{i:08d}"
        assert (datum.channels, datum.height, datum.width) == (1, 4, 5)
        assert datum.data == images[i].tobytes()
        assert datum.label == labels[i]


def test_idx_headers_are_those_of_mnist(tmp_path):
    write_idx(tmp_path / "images", np.zeros((2, 28, 28), dtype=np.uint8))
    assert (tmp_path / "images").read_bytes()[:16] == struct.pack(">4I", 2051, 2, 28, 28)
    write_idx(tmp_path / "labels", np.zeros(2, dtype=np.uint8))
    assert (tmp_path / "labels").read_bytes()[:8] == struct.pack(">2I", 2049, 2)


def test_wrong_idx_files_are_told_apart(tmp_path):
    labels = struct.pack(">2I", 2049, 3) + b"\0\1\2"
    with pytest.raises(DataError, match=r"x: magic number 2049, expected 2051"):
        parse_idx(labels, 3, "x")
    with pytest.raises(DataError, match=r"x: 2 bytes for shape \(3,\)"):
        parse_idx(labels[:-1], 1, "x")
    with pytest.raises(DataError, match="magic number 0"):
        parse_idx(b"", 1, "x")
    with pytest.raises(DataError, match="damaged gzip"):
        parse_idx(gzip.compress(labels)[:-9], 1, "x")
    with pytest.raises(DataError, match="nowhere: cannot read"):
        read_idx(tmp_path / "nowhere", 1)
    write_idx(tmp_path / "images", np.zeros((4, 2, 2), dtype=np.uint8))
    (tmp_path / "labels").write_bytes(labels)
    with pytest.raises(DataError, match=r"images has 4 images, .*labels 3 labels"):
        convert_mnist_data(tmp_path / "images", tmp_path / "labels", tmp_path / "db")
    assert not (tmp_path / "db").exists()


# -- CIFAR -------------------------------------------------------------------------------------


def test_cifar_batches_become_two_databases_with_five_digit_keys(tmp_path, rng, caplog):
    rows = {}
    for name in (*convert_cifar.TRAIN, *convert_cifar.TEST):
        rows[name] = rng.integers(0, 10, (3, 3073)).astype(np.uint8)
        (tmp_path / name).write_bytes(rows[name].tobytes())
    counts = convert_cifar_data(tmp_path, tmp_path / "out", "lmdb")
    assert counts == {"cifar10_train_lmdb": 15, "cifar10_test_lmdb": 3}
    assert "test_batch.bin: 3 records, CIFAR-10's batches have 10000" in caplog.text
    train = entries(tmp_path / "out" / "cifar10_train_lmdb")
    assert [key for key, _ in train] == [f"{i:05d}" for i in range(15)]
    row = rows["data_batch_3.bin"][1]
    datum = train[7][1]
    assert (datum.channels, datum.height, datum.width, datum.label) == (3, 32, 32, row[0])
    assert datum.data == row[1:].tobytes()


def test_cifar_files_that_are_missing_or_of_another_size_are_named(tmp_path):
    with pytest.raises(DataError, match=r"data_batch_1.bin: cannot read"):
        convert_cifar_data(tmp_path, tmp_path / "out")
    (tmp_path / "data_batch_1.bin").write_bytes(b"123")
    with pytest.raises(DataError, match=r"data_batch_1.bin: 3 bytes are not whole records of 3073"):
        convert_cifar_data(tmp_path, tmp_path / "out")


# -- lists of pictures -------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path, rng):
    root = tmp_path / "root dir"
    (root / "a b").mkdir(parents=True)
    lines = []
    for i, name in enumerate(["a b/0.png", "1.JPG", "2.png", "3.png"]):
        noise = rng.integers(0, 256, (6, 5, 3)).astype(np.uint8)
        Image.fromarray(noise).save(root / name)
        lines.append(f"{name} {i * 10}\n")
    (root / "2.png").write_bytes(b"broken")
    (tmp_path / "list.txt").write_text("".join(lines))
    return f"{root}/", tmp_path / "list.txt", tmp_path / "db"


def pixels(root: str, name: str) -> np.ndarray:
    return np.asarray(Image.open(root + name).convert("RGB")).transpose(2, 0, 1)[::-1]


def test_pictures_are_stored_raw_under_index_and_path_and_broken_ones_left_out(pictures, caplog):
    root, listing, db = pictures
    summary = convert_imageset(*pictures)
    assert (summary.stored, len(summary.skipped)) == (3, 1)
    assert str(summary) == "3 pictures stored, 1 skipped"
    assert "list.txt:3" in caplog.text and "2.png" in caplog.text
    found = entries(db)
    assert [key for key, _ in found] == ["00000000_a b/0.png", "00000001_1.JPG", "00000003_3.png"]
    assert [datum.label for _, datum in found] == [0, 10, 30]
    for key, datum in found:
        assert (datum.channels, datum.height, datum.width) == (3, 6, 5)
        assert datum.HasField("encoded") and not datum.encoded
        assert datum.data == pixels(root, key[9:]).tobytes()
    assert listing.exists()


def test_grey_and_resized_pictures_have_the_size_asked_for(pictures):
    convert_imageset(*pictures, gray=True, resize_height=3, resize_width=8)
    datum = entries(pictures[2])[0][1]
    assert (datum.channels, datum.height, datum.width) == (1, 3, 8)


def test_one_size_alone_is_ignored_as_caffe_does(pictures):
    convert_imageset(*pictures, resize_height=3)
    datum = entries(pictures[2])[0][1]
    assert (datum.channels, datum.height, datum.width) == (3, 6, 5)


def test_encoded_pictures_keep_the_bytes_of_their_files(pictures):
    root, _, db = pictures
    convert_imageset(*pictures, encoded=True)
    for key, datum in entries(db):
        assert datum.encoded and not datum.HasField("channels")
        assert datum.data == Path(root + key[9:]).read_bytes()


def test_encode_type_compresses_anew_where_the_kind_or_size_differs(pictures):
    root, _, db = pictures
    convert_imageset(*pictures, encode_type="jpeg")
    found = dict(entries(db))
    assert found["00000001_1.JPG"].data == Path(root + "1.JPG").read_bytes()
    assert found["00000003_3.png"].data[:2] == b"\xff\xd8"
    with LmdbSource(db) as source:
        assert source.read(0).data.shape == (3, 6, 5)


def test_a_shuffle_mixes_the_list_by_its_seed(pictures, tmp_path):
    orders = []
    for seed in (1, 1, 2, 3):
        db = tmp_path / f"db{len(orders)}"
        convert_imageset(*pictures[:2], db, shuffle=True, seed=seed)
        orders.append([key[9:] for key, _ in entries(db)])
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == ["1.JPG", "3.png", "a b/0.png"] for order in orders)


@pytest.mark.parametrize("encoded", [False, True])
def test_check_size_names_the_picture_that_differs(pictures, encoded):
    root = pictures[0]
    Image.fromarray(np.zeros((2, 2, 3), dtype=np.uint8)).save(root + "3.png")
    convert_imageset(*pictures[:2], pictures[2].with_name("other"), encoded=encoded)
    with pytest.raises(DataError, match=r"list.txt:4: .*3.png has 12 bytes, not 90"):
        convert_imageset(*pictures, check_size=True, encoded=encoded)
    assert not pictures[2].exists()


def test_a_kind_that_cannot_be_encoded_is_refused_before_reading(pictures):
    with pytest.raises(DataError, match="cannot encode pictures as 'foo'") as caught:
        convert_imageset(*pictures, encode_type="foo")
    assert "jpg" in caught.value.fix
    assert not pictures[2].exists()


def test_a_root_folder_that_leads_nowhere_makes_no_database(pictures):
    with pytest.raises(DataError, match="none of 4 pictures") as caught:
        convert_imageset(pictures[0].rstrip("/"), *pictures[1:])
    assert "slash" in caught.value.fix
    assert not pictures[2].exists()


def test_a_key_too_long_for_lmdb_is_named(tmp_path):
    with (
        pytest.raises(DataError, match="cannot store the entries b'xxx"),
        create_database(tmp_path / "db") as database,
    ):
        database.put("x" * 600, b"")
    assert not list(tmp_path.iterdir())


# -- means -------------------------------------------------------------------------------------


def test_the_mean_is_exact_and_its_file_has_caffes_legacy_form(tmp_path, rng, caplog):
    batch = rng.integers(0, 256, (7, 3, 4, 5)).astype(np.uint8)
    with create_database(tmp_path / "db") as database:
        for i, item in enumerate(batch):
            value = encoded_value(encode(item, "png"), 0) if i == 3 else raw_value(item, 0)
            database.put(str(i), value)
    with caplog.at_level(logging.INFO, "swcaffe"):
        summary = compute_image_mean(tmp_path / "db", tmp_path / "mean.binaryproto")
    expected = (batch.astype(np.float64).sum(axis=0) / 7).astype(np.float32)
    assert summary.count == 7
    assert np.array_equal(summary.mean, expected)
    assert np.array_equal(read_mean(tmp_path / "mean.binaryproto"), expected)
    blob = messages.BlobProto.FromString((tmp_path / "mean.binaryproto").read_bytes())
    assert (blob.num, blob.channels, blob.height, blob.width) == (1, 3, 4, 5)
    assert not blob.HasField("shape")
    assert "Number of channels: 3" in caplog.text
    assert f"mean_value channel [2]: {batch[:, 2].mean():.6g}" in caplog.text


def test_pictures_of_two_sizes_have_no_mean(tmp_path):
    with create_database(tmp_path / "db") as database:
        database.put("a", raw_value(np.zeros((1, 2, 2), dtype=np.uint8), 0))
        database.put("b", raw_value(np.zeros((1, 2, 3), dtype=np.uint8), 0))
    with pytest.raises(DataError, match=r"'b' has shape \(1, 2, 3\), those before \(1, 2, 2\)"):
        compute_image_mean(tmp_path / "db")


def test_an_empty_database_has_no_mean(tmp_path):
    with create_database(tmp_path / "db"):
        pass
    with pytest.raises(DataError, match="the database is empty"):
        compute_image_mean(tmp_path / "db")


def test_files_that_hold_no_mean_image_are_refused(tmp_path):
    path = tmp_path / "m.binaryproto"
    with pytest.raises(DataError, match=r"m.binaryproto"):
        read_mean(path)
    path.write_bytes(messages.BlobProto(data=[1.0, 2.0]).SerializeToString())
    with pytest.raises(DataError, match=r"m.binaryproto"):
        read_mean(path)
    flat = messages.BlobProto(data=[1.0, 2.0])
    flat.shape.dim.append(2)
    path.write_bytes(flat.SerializeToString())
    with pytest.raises(DataError, match=r"a mean of shape \(2,\)"):
        read_mean(path)
