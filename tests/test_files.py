"""write_atomically: old file or new file, nothing between, nothing left over."""

from __future__ import annotations

import pytest

from swcaffe.errors import DataError, WeightsError
from swcaffe.files import write_atomically


def test_the_file_appears_whole_and_alone(tmp_path):
    target = tmp_path / "a.bin"
    with write_atomically(target) as part:
        assert part.parent == tmp_path
        part.write_bytes(b"half")
        assert not target.exists()
    assert target.read_bytes() == b"half"
    assert list(tmp_path.iterdir()) == [target]


def test_an_exception_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), write_atomically(target) as part:
        part.write_bytes(b"new")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_followed(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    with write_atomically(link) as part:
        part.write_bytes(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_missing_folder_is_named_in_the_chosen_error(tmp_path):
    target = tmp_path / "none" / "a.bin"
    with (
        pytest.raises(WeightsError, match=r"none/a\.bin: No such file") as caught,
        write_atomically(target, WeightsError) as part,
    ):
        part.write_bytes(b"x")
    assert "folder exists" in caught.value.fix


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(DataError, match="No such file"), write_atomically(tmp_path / "a.bin"):
        pass


@pytest.mark.parametrize("place", [".", "/dev/null"])
def test_a_folder_or_device_is_refused(tmp_path, place):
    refused = pytest.raises(DataError, match="not a regular file")
    with refused, write_atomically(tmp_path / place):
        raise AssertionError("must not get here")


def test_an_error_about_another_file_passes_unchanged(tmp_path):
    with pytest.raises(FileNotFoundError), write_atomically(tmp_path / "a.bin"):
        (tmp_path / "other").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_reported(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with (
        pytest.raises(DataError, match="Not a directory"),
        write_atomically(tmp_path / "a" / "b") as part,
    ):
        part.write_bytes(b"x")
