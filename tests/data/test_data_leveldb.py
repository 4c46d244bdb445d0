from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from swcaffe.data.database import create_database, open_database
from swcaffe.data.datum import raw_value
from swcaffe.errors import DataError

has_plyvel = importlib.util.find_spec("plyvel") is not None


@pytest.mark.skipif(has_plyvel, reason="plyvel is installed")
def test_without_plyvel_the_error_says_what_to_install(tmp_path):
    with pytest.raises(DataError, match="pip install plyvel"):
        open_database(tmp_path, "leveldb")
    with (
        pytest.raises(DataError, match="pip install plyvel"),
        create_database(tmp_path / "db", "leveldb"),
    ):
        raise AssertionError("not reached")


@pytest.mark.skipif(not has_plyvel, reason="needs plyvel")
def test_records_written_are_read_in_key_order(tmp_path):
    with create_database(tmp_path / "db", "leveldb") as database:
        for i in (2, 0, 1):
            pixels = np.full((1, 2, 2), i, dtype=np.uint8)
            database.put(f"{i:08d}", raw_value(pixels, i))
    with open_database(tmp_path / "db", "leveldb") as source:
        assert len(source) == 3
        for i in range(3):
            record = source.read(i)
            assert (record.key, record.labels) == (f"{i:08d}", (i,))
            assert np.array_equal(record.data, np.full((1, 2, 2), i))


@pytest.mark.skipif(not has_plyvel, reason="needs plyvel")
def test_a_folder_without_a_database_is_an_error(tmp_path):
    with pytest.raises(DataError, match="nowhere: no LevelDB database here"):
        open_database(tmp_path / "nowhere", "leveldb")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not a readable LevelDB database"):
        open_database(tmp_path / "empty", "leveldb")
