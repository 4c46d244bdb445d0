from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import lmdb
import numpy as np
import pytest

from swcaffe.data.database import create_database, open_database
from swcaffe.data.datum import encoded_value, raw_value
from swcaffe.data.image import encode
from swcaffe.data.lmdb import STRIDE, LmdbSource
from swcaffe.errors import DataError, UsageError
from swcaffe.proto import messages


def picture(i: int) -> np.ndarray:
    return np.full((1, 2, 3), i % 251, dtype=np.uint8)


def write(path: Path, n: int, key: str = "{:08d}") -> Path:
    with create_database(path) as database:
        for i in range(n):
            database.put(key.format(i), raw_value(picture(i), i % 10))
    return path


def put_raw(path: Path, entries: dict[bytes, bytes]) -> Path:
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        for key, value in entries.items():
            txn.put(key, value)
    return path


@pytest.mark.parametrize("n", [1, STRIDE - 1, STRIDE, STRIDE + 1, 5 * STRIDE])
def test_records_come_in_key_order_from_any_place(tmp_path, rng, n):
    with LmdbSource(write(tmp_path / "db", n)) as source:
        assert len(source) == n
        for i in [n - 1, *rng.permutation(n), *range(n)]:
            record = source.read(int(i))
            assert record.key == f"{i:08d}"
            assert np.array_equal(record.data, picture(i))
            assert record.labels == (i % 10,)


def test_keys_are_ordered_as_bytes_not_as_numbers(tmp_path):
    with LmdbSource(write(tmp_path / "db", 12, key="{}")) as source:
        keys = [source.read(i).key for i in range(12)]
    assert keys == sorted(str(i) for i in range(12))


def test_many_threads_read_what_one_reads(tmp_path):
    source = LmdbSource(write(tmp_path / "db", 500))
    wrong: list[int] = []

    def check(first: int) -> None:
        for j in range(2000):
            i = (first + j * 37) % 500
            if source.read(i).key != f"{i:08d}":
                wrong.append(i)

    threads = [threading.Thread(target=check, args=(k * 100,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    source.close()


def test_reading_leaves_a_read_only_folder_as_it_was(tmp_path):
    path = write(tmp_path / "db", 3)
    path.chmod(0o555)
    (path / "data.mdb").chmod(0o444)
    with LmdbSource(path) as source:
        assert source.read(2).key == "00000002"
    assert [p.name for p in path.iterdir()] == ["data.mdb"]
    path.chmod(0o755)


def test_one_database_can_be_open_twice_and_again(tmp_path):
    path = write(tmp_path / "db", 3)
    first, second = LmdbSource(path), LmdbSource(path)
    first.close()
    first.close()
    assert second.read(1).key == "00000001"
    second.close()
    with LmdbSource(path) as third:
        assert third.read(2).key == "00000002"


def test_a_database_made_again_at_the_same_path_is_the_new_one(tmp_path):
    path = write(tmp_path / "db", 3)
    old = LmdbSource(path)
    path.rename(tmp_path / "old")
    with LmdbSource(write(path, 5)) as new:
        assert (len(old), len(new)) == (3, 5)
        assert new.read(4).key == "00000004"
        assert old.read(2).key == "00000002"
    old.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reads_too(tmp_path):
    path = write(tmp_path / "db", 100)
    program = (
        "import os, sys\n"
        "from swcaffe.data.lmdb import LmdbSource\n"
        "source = LmdbSource(sys.argv[1])\n"
        "assert source.read(40).key == '00000040'\n"
        "child = os.fork()\n"
        "assert [source.read(i).key for i in (41, 99)] == ['00000041', '00000099']\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_missing_garbage_and_truncated_databases_are_told_apart(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no LMDB database here \(No such file"):
        LmdbSource(tmp_path / "nowhere")
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "data.mdb").write_bytes(b"junk" * 5000)
    with pytest.raises(DataError, match=r"junk: not a readable LMDB database"):
        LmdbSource(tmp_path / "junk")
    path = write(tmp_path / "db", 300)
    file = path / "data.mdb"
    file.write_bytes(file.read_bytes()[:9000])
    with pytest.raises(DataError, match=r"cut short, 9000 of \d+ bytes"):
        LmdbSource(path)


def test_values_that_are_no_pictures_are_named_by_key(tmp_path):
    short = messages.Datum(channels=3, height=4, width=5, data=b"123")
    entries = {
        b"a": b"\xff\xff\xff",
        b"b": short.SerializeToString(),
        b"c": b"",
        b"d": encoded_value(b"\x89PNG\r\n\x1a\n", 1),
        b"e": messages.Datum(channels=1 << 30, height=1 << 30, width=1 << 30).SerializeToString(),
    }
    texts = [
        r"record 'a': its 3 bytes are not a Datum",
        r"record 'b': 3 values for shape \(3, 4, 5\), which has 60",
        r"record 'c': 0 values for shape \(0, 0, 0\)",
        r"record 'd': cannot decode 8 bytes as a picture",
        r"record 'e': 0 values for shape",
    ]
    with LmdbSource(put_raw(tmp_path / "db", entries)) as source:
        for i, text in enumerate(texts):
            with pytest.raises(DataError, match=text):
                source.read(i)


def test_numbers_and_compressed_pictures_are_read_as_caffe_reads_them(tmp_path, rng):
    floats = rng.normal(size=(2, 1, 3)).astype(np.float32)
    colours = rng.integers(0, 256, (3, 5, 4)).astype(np.uint8)
    entries = {b"a": raw_value(floats, -7), b"b": encoded_value(encode(colours, "png"), 4)}
    path = put_raw(tmp_path / "db", entries)
    with LmdbSource(path) as source:
        record = source.read(0)
        assert record.data.dtype == np.float32
        assert np.array_equal(record.data, floats)
        assert record.labels == (-7,)
        assert np.array_equal(source.read(1).data, colours)
    with LmdbSource(path, colour="grey") as source:
        assert source.read(1).data.shape == (1, 5, 4)


def test_a_new_database_grows_beyond_its_first_map_and_keeps_caffes_mode(tmp_path):
    path = tmp_path / "sub" / "db"
    with create_database(path) as database:
        for i in range(3001):
            database.put(f"{i:08d}", raw_value(np.zeros((1, 40, 40), dtype=np.uint8), 0))
    assert database.count == 3001
    assert stat.S_IMODE(path.stat().st_mode) == 0o744
    with open_database(path) as source:
        assert len(source) == 3001
        assert source.read(3000).key == "00003000"


def test_a_database_is_there_whole_or_not_at_all(tmp_path):
    with pytest.raises(KeyError), create_database(tmp_path / "db") as database:
        database.put("a", b"")
        raise KeyError("the converter fails")
    assert not list(tmp_path.iterdir())
    write(tmp_path / "db", 1)
    with pytest.raises(DataError, match="db exists already"), create_database(tmp_path / "db"):
        raise AssertionError("not reached")
    with pytest.raises(UsageError, match="unknown database backend 'lmbd'"):
        open_database(tmp_path / "db", "lmbd")


def test_a_database_under_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DataError, match="cannot be written"),
        create_database(tmp_path / "file" / "db"),
    ):
        raise AssertionError("not reached")


def test_the_first_bytes_of_a_value_are_those_caffe_writes():
    value = raw_value(np.zeros((1, 28, 28), dtype=np.uint8), 7)
    assert value[:8] == bytes.fromhex("0801101c181c2290")


def test_importing_the_package_loads_no_reader():
    program = "import sys, swcaffe.data; print({'lmdb', 'h5py', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"set()"
