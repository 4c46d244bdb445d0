"""WindowData: which windows a batch holds, and where their pixels go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import OneLayer, layer_text

from swcaffe.data.image import encode
from swcaffe.data.window_list import WindowListSource, read_windows
from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, ParameterError
from swcaffe.net.layer import Phase

PIXELS = np.arange(3 * 6 * 8, dtype=np.uint8).reshape(3, 6, 8)
"""8 wide, 6 high; every value once."""

WINDOWS = """# 0
a.png
3
6
8
4
1 0.9 1 2 4 5
2 0.5 0 0 3 3
3 0.2 4 2 7 5
0 0 2 1 5 4
# 1
a.png
3
6
8
0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(encode(PIXELS, "png"))
    (tmp_path / "list.txt").write_text(WINDOWS)
    return tmp_path


def layer(
    folder: Path,
    engine: Engine,
    param: str = "",
    transform: str = "crop_size: 4",
    **context: object,
) -> OneLayer:
    source = f'source: "{folder}/list.txt" root_folder: "{folder}/"'
    batch = "" if "batch_size" in param else "batch_size: 8"
    params = f"window_data_param {{ {source} {batch} {param} }} transform_param {{ {transform} }}"
    return OneLayer(layer_text("WindowData", params, 0, 2), [], engine, **context)


def test_a_batch_has_its_background_first_and_a_quarter_of_objects(
    folder: Path, reference_engine: Engine
) -> None:
    one = layer(folder, reference_engine)
    seen = set()
    for _ in range(20):
        data, labels = one.forward()
        assert data.shape == (8, 3, 4, 4)
        assert labels[:6].tolist() == [0] * 6
        assert set(labels[6:]) <= {1, 2}
        for item, label in zip(data, labels, strict=True):
            boxes = {1: [(1, 2)], 2: [(0, 0)], 0: [(4, 2), (2, 1)]}[int(label)]
            cuts = [PIXELS[:, y : y + 4, x : x + 4] for x, y in boxes]
            assert sum(np.array_equal(item, cut) for cut in cuts) == 1
        seen.update(labels)
    one.layer.close()
    assert seen == {0, 1, 2}


def test_draws_are_a_function_of_seed_and_position(folder: Path, reference_engine: Engine) -> None:
    one, other = (layer(folder, reference_engine, "", "crop_size: 4 mirror: true") for _ in "ab")
    batches = [one.forward()[0] for _ in range(4)]
    assert not np.array_equal(batches[0], batches[1])
    other.layer.load_state({"position": np.array(16, np.int64)})
    assert np.array_equal(other.forward()[0], batches[2])
    third = layer(folder, reference_engine, "", "crop_size: 4 mirror: true", seed=2)
    assert not np.array_equal(third.forward()[0], batches[0])
    assert third.layer.epoch() is None
    for made in (one, other, third):
        made.layer.close()


def test_ranks_draw_different_windows_in_training_only(
    folder: Path, reference_engine: Engine
) -> None:
    batches = {}
    for phase in Phase:
        for rank in (0, 1):
            one = layer(folder, reference_engine, phase=phase, rank=rank, size=2)
            batches[phase, rank] = one.forward()[0]
            one.layer.close()
    assert not np.array_equal(batches[Phase.TRAIN, 0], batches[Phase.TRAIN, 1])
    assert np.array_equal(batches[Phase.TEST, 0], batches[Phase.TEST, 1])


def cut(folder: Path, index: int = 0, **settings: object) -> np.ndarray:
    source = WindowListSource(folder / "list.txt", root_folder=f"{folder}/", **settings)
    return source.read(index).data


def test_a_mirror_image_lies_on_the_mean_as_it_is(folder: Path) -> None:
    window = PIXELS[:, 2:6, 1:5].astype(np.float32)
    mean = np.arange(3 * 6 * 6, dtype=np.float32).reshape(3, 6, 6)
    for index, pixels in ((0, window), (1, window[:, :, ::-1])):
        found = cut(folder, index, crop=4, mean=mean, scale=0.5)
        assert np.array_equal(found, (pixels - mean[:, 1:5, 1:5]) * 0.5)


def test_surroundings_outside_the_picture_are_0(folder: Path) -> None:
    """Window 1 is columns and rows 0 … 3; twice as large it is -2 … 6, seven of nine inside."""
    found = cut(folder, 2, crop=9, context_pad=2, mean=np.full((3, 1, 1), 5, np.float32))
    grow = 9 / 5
    low, high = np.floor(2 - 2 * grow + 0.5), np.floor(2 + 2 * grow + 0.5)
    assert (low, high) == (-2, 6)
    assert not found[:, :2].any()
    assert not found[:, :, :2].any()
    inside = np.zeros((3, 9, 9), np.float32)
    inside[:, 2:8, 2:9] = PIXELS[:, 0:6, 0:7].astype(np.float32) - 5
    assert np.array_equal(found, inside)
    mirrored = cut(folder, 3, crop=9, context_pad=2, mean=np.full((3, 1, 1), 5, np.float32))
    assert np.array_equal(mirrored, inside[:, :, ::-1])


def test_square_takes_surroundings_where_warp_stretches(folder: Path) -> None:
    (folder / "list.txt").write_text("# 0\na.png\n3\n6\n8\n1\n1 1 2 1 3 4\n")
    warped = cut(folder, crop=4)
    assert warped.shape == (3, 4, 4)
    assert np.array_equal(warped[:, :, 0], PIXELS[:, 1:5, 2])
    square = cut(folder, crop=5, square=True)
    assert np.array_equal(square, PIXELS[:, 1:6, 1:6])


BROKEN = {
    "a.png\n3\n": (1, "where `# number` should start a picture"),
    "# 0\na.png\n3\n6\n": (4, "the list ends within a picture"),
    "# 0\na.png\n3\n6\n8\n1\n1 0.9 1 2 4\n": (7, "not the six numbers of a window"),
    "# 0\na.png\n3\nsix\n8\n1\n": (4, "height is 'six', not a whole number"),
    "# 0\na.png\n3\n6\n8\n1\n0 0.9 1 2 4 5\n": (7, "a foreground window has label 0"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_list_is_named_by_line(text: str, folder: Path) -> None:
    (folder / "list.txt").write_text(text)
    line, message = BROKEN[text]
    with pytest.raises(DataError, match=f"list.txt:{line}: .*{message}") as caught:
        WindowListSource(folder / "list.txt", crop=4)
    assert caught.value.fix


def test_windows_and_pictures_that_do_not_fit_are_named(folder: Path) -> None:
    assert [p.line for p in read_windows(folder / "list.txt")[0]] == [1, 11]
    with pytest.raises(DataError, match="cannot read the list"):
        read_windows(folder / "none.txt")
    with pytest.raises(DataError, match=r"list.txt:7.*"):
        WindowListSource(folder / "list.txt", crop=4).read(0)
    with pytest.raises(DataError, match="mean of 2 channels for pictures of 3"):
        cut(folder, crop=4, mean=np.zeros((2, 1, 1), np.float32))
    with pytest.raises(DataError, match="the mean has 3 x 3 pixels"):
        cut(folder, crop=4, mean=np.zeros((3, 3, 3), np.float32))
    (folder / "list.txt").write_text("# 0\na.png\n3\n6\n8\n1\n1 1 2 1 9 4\n")
    with pytest.raises(DataError, match="does not lie within the picture of 8 x 6"):
        cut(folder, crop=4)
    (folder / "list.txt").write_text("# 0\na.png\n4\n6\n8\n0\n")
    with pytest.raises(DataError, match="pictures of 4 channels"):
        WindowListSource(folder / "list.txt", crop=4)


@pytest.mark.parametrize(
    ("param", "transform", "error", "message"),
    [
        ("", "", ParameterError, "crop_size 0 leaves no room"),
        ("context_pad: 2", "crop_size: 4", ParameterError, "crop_size 4 leaves no room"),
        ('crop_mode: "squar"', "crop_size: 4", ParameterError, "crop_mode 'squar' is unknown"),
        ("", 'crop_size: 4 mean_file: "m" mean_value: 1', ParameterError, "both mean_file and"),
        (
            "fg_threshold: 2",
            "crop_size: 4",
            DataError,
            "no foreground windows, of which .* takes 2",
        ),
        ("batch_size: 0", "crop_size: 4", ParameterError, "batch_size is missing"),
    ],
)
def test_wrong_parameters_are_refused(
    param: str,
    transform: str,
    error: type[Exception],
    message: str,
    folder: Path,
    reference_engine: Engine,
) -> None:
    with pytest.raises(error, match=message):
        layer(folder, reference_engine, param, transform)


def test_mean_and_scale_reach_the_windows(folder: Path, reference_engine: Engine) -> None:
    plain = layer(folder, reference_engine)
    scaled = layer(folder, reference_engine, "scale: 0.5", "crop_size: 4 mean_value: 3")
    assert np.array_equal(scaled.forward()[0], (plain.forward()[0] - 3) * 0.5)
    for one in (plain, scaled):
        one.layer.close()
