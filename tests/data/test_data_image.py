from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from swcaffe.data.image import decode, encode, read_picture, resize
from swcaffe.errors import DataError

SMALL = np.array([[10, 200, 30, 4], [55, 66, 177, 88], [9, 250, 101, 12]], dtype=np.uint8)

OPENCV = {  # cv2.resize(SMALL, (width, height)) of OpenCV 4.10.0
    (2, 3): [[45, 117, 32], [51, 162, 46]],
    (1, 2): [[61, 133]],
    (3, 2): [[105, 17], [61, 133], [130, 57]],
    (5, 7): [
        [10, 78, 186, 115, 28, 13, 4],
        [28, 70, 138, 118, 85, 56, 37],
        [55, 59, 65, 122, 171, 120, 88],
        [27, 81, 166, 154, 125, 74, 42],
        [9, 95, 233, 175, 94, 44, 12],
    ],
    (6, 8): [
        [10, 57, 152, 157, 72, 23, 10, 4],
        [21, 57, 130, 141, 92, 56, 35, 25],
        [44, 58, 85, 110, 130, 122, 85, 67],
        [44, 61, 95, 123, 146, 136, 91, 69],
        [21, 66, 158, 183, 141, 98, 53, 31],
        [9, 69, 190, 213, 138, 79, 34, 12],
    ],
}


def saved(picture: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, quality=95)
    return out.getvalue()


def rgb() -> np.ndarray:
    y, x = np.mgrid[0:12, 0:16]
    return np.stack([x * 15, y * 20, (x + y) * 9], axis=-1).astype(np.uint8)


def bilinear(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """The rule in real numbers, one output pixel at a time."""
    _, h, w = pixels.shape
    out = np.zeros((len(pixels), height, width))
    for y in range(height):
        for x in range(width):
            fy = min(max((y + 0.5) * h / height - 0.5, 0), h - 1)
            fx = min(max((x + 0.5) * w / width - 0.5, 0), w - 1)
            y0, x0 = int(fy), int(fx)
            y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
            a, b = fy - y0, fx - x0
            upper = pixels[:, y0, x0] * (1 - b) + pixels[:, y0, x1] * b
            lower = pixels[:, y1, x0] * (1 - b) + pixels[:, y1, x1] * b
            out[:, y, x] = upper * (1 - a) + lower * a
    return out


@pytest.mark.parametrize("size", OPENCV)
def test_resizing_gives_opencvs_bytes(size):
    assert resize(SMALL[np.newaxis], *size)[0].tolist() == OPENCV[size]


def test_halving_is_the_rounded_mean_of_four_as_in_opencv():
    assert resize(SMALL[np.newaxis, :2], 1, 2).tolist() == [[[83, 75]]]


@pytest.mark.parametrize(
    ("size", "wanted"),
    [((9, 7), (23, 5)), ((30, 40), (11, 13)), ((1, 1), (3, 2)), ((5, 6), (5, 3))],
)
def test_resizing_is_bilinear_to_within_one_step_of_a_byte(rng, size, wanted):
    pixels = rng.integers(0, 256, (3, *size)).astype(np.uint8)
    difference = resize(pixels, *wanted) - bilinear(pixels, *wanted)
    assert np.abs(difference).max() <= 1


def test_resizing_to_the_same_size_changes_nothing():
    assert np.array_equal(resize(SMALL[np.newaxis], 3, 4)[0], SMALL)


@pytest.mark.parametrize("colour", ["bgr", "stored"])
def test_channels_are_blue_green_red_and_planar(colour):
    pixels = decode(saved(Image.fromarray(rgb()), "PNG"), colour, "x")
    assert pixels.shape == (3, 12, 16) and pixels.flags.c_contiguous
    assert np.array_equal(pixels, rgb().transpose(2, 0, 1)[::-1])


def test_grey_is_the_luma_of_a_png_and_of_a_jpeg():
    red, green, blue = rgb().astype(np.float64).transpose(2, 0, 1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    png = decode(saved(Image.fromarray(rgb()), "PNG"), "grey", "x")
    assert png.shape == (1, 12, 16)
    assert np.abs(png[0] - luma).max() <= 1
    jpeg = decode(saved(Image.fromarray(rgb()), "JPEG"), "grey", "x")
    assert np.abs(jpeg[0] - luma).max() <= 4


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_picture_becomes_three_channels_or_one_when_asked(mode):
    base = Image.fromarray(rgb())
    if mode == "I;16":
        picture = Image.fromarray(np.arange(192, dtype=np.uint16).reshape(12, 16) * 300)
    else:
        picture = base.convert(mode)
    data = saved(picture, "TIFF" if mode == "CMYK" else "PNG")
    colour, grey = decode(data, "bgr", "x"), decode(data, "grey", "x")
    assert (colour.shape, grey.shape) == ((3, 12, 16), (1, 12, 16))
    assert colour.dtype == grey.dtype == np.uint8
    assert colour.max() > colour.min()


def test_alpha_is_dropped_not_blended():
    rgba = np.dstack([rgb(), np.zeros((12, 16), dtype=np.uint8)])
    pixels = decode(saved(Image.fromarray(rgba), "PNG"), "bgr", "x")
    assert np.array_equal(pixels, rgb().transpose(2, 0, 1)[::-1])


def test_sixteen_bits_keep_the_upper_eight():
    deep = np.array([[0, 255, 256, 65535]], dtype=np.uint16)
    data = saved(Image.fromarray(deep), "PNG")
    assert decode(data, "grey", "x").ravel().tolist() == [0, 0, 1, 255]


@pytest.mark.parametrize(
    ("picture", "text"),
    [
        (Image.fromarray(rgb()).convert("RGBA"), r"4 channels \(RGBA\)"),
        (Image.fromarray(rgb()).convert("LA"), r"2 channels \(LA\)"),
        (Image.fromarray(rgb()).convert("CMYK"), r"4 channels \(CMYK\)"),
        (Image.fromarray(np.zeros((2, 2), dtype=np.uint16)), r"16-bit picture of 1 channels"),
    ],
)
def test_other_channel_counts_are_refused_when_no_colour_is_forced(picture, text):
    data = saved(picture, "TIFF" if picture.mode == "CMYK" else "PNG")
    with pytest.raises(DataError, match=text) as caught:
        decode(data, "stored", "list.txt:3: a.png")
    assert str(caught.value).startswith("list.txt:3: a.png")
    assert "force_color" in caught.value.fix


def test_a_picture_turned_by_its_exif_tag_is_turned_when_a_colour_is_asked_for():
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    out = io.BytesIO()
    Image.fromarray(rgb()).save(out, "JPEG", exif=exif)
    assert decode(out.getvalue(), "bgr", "x").shape == (3, 16, 12)
    assert decode(out.getvalue(), "stored", "x").shape == (3, 12, 16)


def test_cut_empty_and_foreign_files_are_errors_with_their_name(tmp_path):
    whole = saved(Image.fromarray(np.tile(rgb(), (20, 20, 1))), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) * 6 // 10])
    (tmp_path / "zero.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_bytes(b"not a picture")
    for name, text in [
        ("cut.jpg", "truncated"),
        ("zero.jpg", "cannot decode 0 bytes"),
        ("text.jpg", "not a known format"),
        ("missing.jpg", "cannot read"),
    ]:
        for colour in ("bgr", "grey", "stored"):
            with pytest.raises(DataError, match=rf"{name}.*{text}"):
                read_picture(tmp_path / name, colour)


@pytest.mark.parametrize("extension", ["png", ".PNG", "bmp"])
def test_lossless_formats_give_back_the_pixels(rng, extension):
    for channels in (1, 3):
        pixels = rng.integers(0, 256, (channels, 5, 7)).astype(np.uint8)
        assert np.array_equal(decode(encode(pixels, extension), "stored", "x"), pixels)


def test_jpeg_keeps_the_picture_roughly_and_unknown_extensions_are_refused():
    pixels = rgb().transpose(2, 0, 1)[::-1]
    assert np.abs(decode(encode(pixels, "jpg"), "bgr", "x").astype(int) - pixels).mean() < 4
    with pytest.raises(DataError, match=r"'tga'"):
        encode(pixels, "tga")


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, put in, or the end cut off; the head is hit as often as the rest."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 2, 8])):
        place = int(rng.integers(min(64, len(changed)) if rng.random() < 0.5 else len(changed)))
        kind = rng.random()
        if kind < 0.6:
            changed[place] = rng.integers(256)
        elif kind < 0.8:
            del changed[max(1, place) :]
        else:
            changed.insert(place, int(rng.integers(256)))
    return bytes(changed)


@pytest.mark.filterwarnings("ignore")  # Pillow's remarks on odd metadata and large pictures
def test_damaged_bytes_give_a_picture_or_an_error_of_ours(rng):
    kinds = [
        (kind, mode) for kind in ("PNG", "JPEG", "BMP", "TIFF", "GIF") for mode in ("RGB", "L")
    ]
    seeds = [saved(Image.fromarray(rgb()).convert(mode), kind) for kind, mode in kinds]
    refused = 0
    for i in range(400):
        data = mutated(seeds[i % len(seeds)], rng)
        try:
            assert decode(data, ("bgr", "grey", "stored")[i % 3], "x").ndim == 3
        except DataError:
            refused += 1
    assert 100 < refused < 400


def test_a_few_bytes_that_claim_a_huge_picture_are_not_unpacked():
    claim = bytearray(saved(Image.fromarray(rgb()), "BMP"))
    claim[18:26] = (9000).to_bytes(4, "little") + (9000).to_bytes(4, "little")
    with pytest.raises(DataError, match=r"cannot decode 630 bytes .*9000 x 9000"):
        decode(bytes(claim), "bgr", "x")


def test_formats_that_run_programs_are_not_read():
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    with pytest.raises(DataError, match="not a known format"):
        decode(script, "bgr", "x.eps")
