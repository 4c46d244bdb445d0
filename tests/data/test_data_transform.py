from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest

from swcaffe.arrays import F32
from swcaffe.data.draws import item_words
from swcaffe.data.transform import Transformer
from swcaffe.errors import ParameterError, ShapeError


@dataclass(frozen=True)
class Param:
    scale: float = 1.0
    mirror: bool = False
    crop_size: int = 0
    mean_file: str = ""
    mean_value: tuple[float, ...] = ()


def no_file(path: str) -> F32:
    raise AssertionError(f"read {path}")


def run(transformer: Transformer, pixels: np.ndarray, words=(0, 0, 0)) -> F32:
    out = np.full(transformer.output_shape(pixels.shape), np.nan, dtype=np.float32)
    transformer.apply(pixels, np.array(words, dtype=np.uint64), out)
    return out


def by_loops(pixels, words, *, train, scale, mirror, crop, mean):
    """Caffe's rule, one pixel at a time, in float32."""
    channels, height, width = pixels.shape
    rows, cols = (crop, crop) if crop else (height, width)
    top = left = 0
    if crop and train:
        top = int(words[1]) % (height - crop + 1)
        left = int(words[2]) % (width - crop + 1)
    elif crop:
        top, left = (height - crop) // 2, (width - crop) // 2
    out = np.zeros((channels, rows, cols), dtype=np.float32)
    for c in range(channels):
        for y in range(rows):
            for x in range(cols):
                value = np.float32(pixels[c, top + y, left + x])
                if mean is not None and mean.shape == pixels.shape:
                    value -= mean[c, top + y, left + x]
                elif mean is not None:
                    value -= mean[c % len(mean), 0, 0]
                column = cols - 1 - x if mirror and int(words[0]) % 2 else x
                out[c, y, column] = value * np.float32(scale)
    return out


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("mean_shape", [None, (1, 1, 1), (3, 1, 1), (3, 7, 9)])
@pytest.mark.parametrize("crop", [0, 5, 7])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_transforming_is_caffes_rule_pixel_by_pixel(rng, dtype, mean_shape, crop, mirror, train):
    pixels = rng.integers(0, 256, size=(3, 7, 9)).astype(dtype)
    mean = None if mean_shape is None else rng.uniform(0, 200, mean_shape).astype(np.float32)
    settings = {"train": train, "scale": 0.017, "mirror": mirror, "crop": crop, "mean": mean}
    for words in item_words(3, 0, 6):
        assert np.array_equal(
            run(Transformer(**settings), pixels, words), by_loops(pixels, words, **settings)
        )


def test_pixel_120_less_mean_103_94_times_0_017_is_0_27302():
    param = Param(scale=0.017, mean_value=(103.94,))
    transformer = Transformer.from_param(param, train=False, read_mean=no_file)
    out = run(transformer, np.full((3, 2, 2), 120, dtype=np.uint8))
    np.testing.assert_allclose(out, 0.27302, rtol=1e-6)


def test_one_mean_value_serves_three_channels_and_two_do_not():
    for values in [(5.0,), (5.0, 6.0, 7.0)]:
        transformer = Transformer.from_param(
            Param(mean_value=values), train=False, read_mean=no_file
        )
        out = run(transformer, np.full((3, 1, 1), 10, dtype=np.uint8))
        assert out.ravel().tolist() == [10 - values[c % len(values)] for c in range(3)]
    two = Transformer.from_param(Param(mean_value=(1.0, 2.0)), train=False, read_mean=no_file)
    with pytest.raises(ShapeError, match=r"2 values of mean_value for images of 3 channels"):
        two.output_shape((3, 4, 4))


def test_mean_file_and_mean_value_together_are_refused():
    with pytest.raises(ParameterError, match=r'both mean_file "m.binaryproto" and mean_value'):
        Transformer.from_param(
            Param(mean_file="m.binaryproto", mean_value=(1.0,)), train=True, read_mean=no_file
        )


def test_a_mean_of_another_size_than_the_image_is_refused_with_both_shapes_and_the_file():
    transformer = Transformer.from_param(
        Param(mean_file="m.binaryproto", crop_size=227),
        train=True,
        read_mean=lambda _path: np.zeros((3, 256, 256), dtype=np.float32),
    )
    with pytest.raises(ShapeError) as caught:
        transformer.output_shape((3, 227, 227))
    for part in ("m.binaryproto", "(3, 256, 256)", "(3, 227, 227)"):
        assert part in str(caught.value)
    assert transformer.output_shape((3, 256, 256)) == (3, 227, 227)


def test_a_crop_as_large_as_the_image_works_and_a_larger_one_is_refused():
    pixels = np.arange(16, dtype=np.uint8).reshape(1, 4, 4)
    assert np.array_equal(run(Transformer(train=True, crop=4), pixels, (0, 9, 9)), pixels)
    with pytest.raises(ShapeError, match=r"crop_size 5 is larger than the image of 4 x 4"):
        Transformer(train=True, crop=5).output_shape((1, 4, 4))


def test_only_pictures_can_be_transformed():
    with pytest.raises(ShapeError, match=r"shape \(4, 4\)"):
        Transformer(train=True).output_shape((4, 4))


def test_the_coin_mirrors_in_both_phases():
    pixels = np.array([[[1, 2, 3]]], dtype=np.uint8)
    for train in (False, True):
        transformer = Transformer(train=train, mirror=True)
        assert run(transformer, pixels, (1, 0, 0)).ravel().tolist() == [3, 2, 1]
        assert run(transformer, pixels, (2, 0, 0)).ravel().tolist() == [1, 2, 3]


def test_a_lenet_batch_takes_under_a_millisecond():
    batch = np.random.default_rng(0).integers(0, 256, (64, 1, 28, 28)).astype(np.uint8)
    out = np.empty(batch.shape, dtype=np.float32)
    transformer = Transformer(train=True, scale=0.00390625)
    words = item_words(1, 0, 64)

    def once() -> float:
        begin = time.perf_counter()
        for pixels, draw, row in zip(batch, words, out, strict=True):
            transformer.apply(pixels, draw, row)
        return time.perf_counter() - begin

    assert min(once() for _ in range(20)) < 1e-3
    assert np.array_equal(out, batch * np.float32(0.00390625))
