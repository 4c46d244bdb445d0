from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from swcaffe.data.image_list import ImageListSource, read_list
from swcaffe.data.loader import Loader
from swcaffe.data.shard import Order
from swcaffe.errors import DataError, ParameterError


def save(path: Path, value: int = 0, size: tuple[int, int] = (6, 4)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((*size, 3), (value, 10, 20), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=95)
    return path


def entries(path: Path, text: bytes) -> list[tuple[str, int]]:
    path.write_bytes(text)
    return [(entry.path, entry.label) for entry in read_list(path)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a.jpg 9 \n", [("a.jpg", 9)]),
        (b"a.jpg  9\n", [("a.jpg", 9)]),
        (b"a.jpg\t9\n", [("a.jpg", 9)]),
        (b"a.jpg 9\r\nb.jpg 8\r\n", [("a.jpg", 9), ("b.jpg", 8)]),
        (b"a.jpg 9\n\n \n", [("a.jpg", 9)]),
        (b"a.jpg 9", [("a.jpg", 9)]),
        (codecs.BOM_UTF8 + b"a.jpg -1\n", [("a.jpg", -1)]),
        ("dir with space/图 1.png 3\n".encode(), [("dir with space/图 1.png", 3)]),
        (b" a.jpg 2 +7\n", [(" a.jpg 2", 7)]),
    ],
)
def test_blanks_tabs_line_ends_and_empty_lines_do_not_change_path_or_label(
    tmp_path, text, expected
):
    assert entries(tmp_path / "list.txt", text) == expected


def test_a_path_that_is_not_utf8_still_opens(tmp_path):
    name = b"caf\xe9.png".decode("utf-8", "surrogateescape")
    save(tmp_path / "x.png").rename(tmp_path / name)
    (tmp_path / "list.txt").write_bytes(b"caf\xe9.png 1\n")
    source = ImageListSource(tmp_path / "list.txt", root_folder=f"{tmp_path}/")
    assert source.read(0).data.shape == (3, 6, 4)


def test_a_missing_and_an_empty_list_are_two_errors_with_the_path(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.txt: cannot read the list \(No such file"):
        read_list(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=r"list.txt: the list is empty"):
        entries(tmp_path / "list.txt", b"\n \r\n")


def test_every_line_without_an_integer_label_is_named(tmp_path):
    with pytest.raises(DataError) as caught:
        entries(tmp_path / "list.txt", b"a.jpg 1\nb.jpg cat\nc.jpg\nd.jpg 1.5\n")
    lines = str(caught.value).splitlines()
    for number in (2, 3, 4):
        assert any(f"list.txt:{number}: " in line for line in lines)
    assert not any("list.txt:1:" in line for line in lines)


def test_wrong_lists_are_shown_in_part_and_labels_must_fit_32_bits(tmp_path):
    with pytest.raises(DataError) as caught:
        entries(tmp_path / "list.txt", b"x" * 5000 + b"\n" + b"a.jpg\n" * 30)
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert max(map(len, lines)) < 300
    assert "and 21 lines more" in lines[10]
    assert entries(tmp_path / "list.txt", b"a.jpg 2147483647\n") == [("a.jpg", 2147483647)]
    for label in (b"2147483648", b"-99999999999999999999"):
        with pytest.raises(DataError, match="an integer label"):
            entries(tmp_path / "list.txt", b"a.jpg " + label)


def test_pictures_in_folders_with_blanks_are_read_and_resized(tmp_path):
    root = tmp_path / "my pictures"
    save(root / "dir with space" / "图 1.png", value=200)
    (tmp_path / "list.txt").write_text("dir with space/图 1.png 3\n", encoding="utf-8")
    settings = {"root_folder": f"{root}/", "new_height": 5, "new_width": 7}
    record = ImageListSource(tmp_path / "list.txt", **settings).read(0)
    assert record.data[:, 2, 2].tolist() == [20, 10, 200]
    assert record.data.shape == (3, 5, 7)
    assert record.labels == (3,)
    grey = ImageListSource(tmp_path / "list.txt", root_folder=f"{root}/", is_color=False)
    assert grey.read(0).data.shape == (1, 6, 4)


def test_a_root_folder_without_its_slash_is_explained(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "list.txt").write_text("a.png 0\n")
    with pytest.raises(DataError, match=r"list.txt:1: .*a.png: no such file") as caught:
        ImageListSource(tmp_path / "list.txt", root_folder=str(tmp_path)).read(0)
    assert f'write "{tmp_path}/"' in caught.value.fix


def test_one_size_alone_is_refused(tmp_path):
    (tmp_path / "list.txt").write_text("a.png 0\n")
    with pytest.raises(ParameterError, match="new_height 5 and new_width 0"):
        ImageListSource(tmp_path / "list.txt", new_height=5)


@pytest.fixture
def ten_pictures(tmp_path):
    """Ten JPEGs: 3 cut at 60 %, 5 empty, 8 missing."""
    rng = np.random.default_rng(0)
    for i in range(10):
        noise = rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{i}.jpg")
    whole = (tmp_path / "3.jpg").read_bytes()
    (tmp_path / "3.jpg").write_bytes(whole[: len(whole) * 6 // 10])
    (tmp_path / "5.jpg").write_bytes(b"")
    (tmp_path / "8.jpg").unlink()
    (tmp_path / "list.txt").write_text("".join(f"{i}.jpg {i}\n" for i in range(10)))
    return ImageListSource(tmp_path / "list.txt", root_folder=f"{tmp_path}/")


def test_cut_empty_and_missing_pictures_are_errors_with_line_and_path(ten_pictures):
    for i in (3, 5, 8):
        with pytest.raises(DataError, match=rf"list.txt:{i + 1}: .*{i}\.jpg"):
            ten_pictures.read(i)
    loader = Loader(ten_pictures, Order(10), 7)
    with pytest.raises(DataError, match=r"3\.jpg.*truncated"):
        loader.next()
    loader.close()


def test_skipping_leaves_seven_of_ten_pictures_in_full_batches_and_says_so(ten_pictures):
    loader = Loader(ten_pictures, Order(10), 7, on_bad="skip")
    for _ in range(3):
        batch = loader.next()
        assert batch.tops[0].shape == (7, 3, 32, 32)
        assert batch.tops[1].tolist() == [0, 1, 2, 4, 6, 7, 9]
    assert loader.summary().startswith("30 items, 9 bad records skipped, data wait ")
    loader.close()
