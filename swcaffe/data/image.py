"""Pictures as Caffe sees them through OpenCV: uint8, planar (c, h, w), channels B, G, R.

Pillow decodes and encodes; colour policy and resizing follow OpenCV: alpha is dropped, 16 bits keep
their upper 8, a picture turned by its EXIF tag is turned when a colour is asked for, and `resize`
is INTER_LINEAR, which does not smooth when it shrinks, in OpenCV's fixed point.
"""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from PIL import Image, ImageOps

from swcaffe.arrays import F32, I32, I64, U8
from swcaffe.errors import DataError

__all__ = ["Colour", "check_encoder", "decode", "encode", "read_picture", "resize"]

Colour: TypeAlias = Literal["bgr", "grey", "stored"]
"""Three channels, one, or as many as the file has (which must be one or three)."""

_READ = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")  # none that runs programs
_FORMATS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "bmp": "BMP", "webp": "WEBP"}
_MOST_PIXELS_A_BYTE = 1 << 15  # no format packs an empty picture tighter; 8256 is PNG's limit
_JPEG_QUALITY = 95  # OpenCV's default
_COEFFICIENT_BITS = 11  # of OpenCV's fixed-point bilinear weights


def decode(data: bytes, colour: Colour, where: str) -> U8:
    """The picture in a compressed file's bytes, (1 or 3, h, w).

    Raises DataError naming `where` for bytes that are no whole picture, and, with "stored", for a
    picture that has neither one nor three channels of 8 bits.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_READ) as picture:
            if picture.width * picture.height > _MOST_PIXELS_A_BYTE * len(data):
                raise ValueError(f"it claims {picture.width} x {picture.height} pixels")
            return _planar(picture, colour, where)
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as cause:
        raise DataError(
            f"{where}: cannot decode {len(data)} bytes as a picture ({_reason(cause)})",
            fix="repair or remove the file, or skip bad records",
        ) from cause


def read_picture(path: Path, colour: Colour) -> U8:
    """Decode a file. Raises DataError naming the path if it is missing or no whole picture."""
    try:
        data = path.read_bytes()
    except OSError as cause:
        raise DataError(
            f"{path}: cannot read ({cause.strerror or cause})",
            fix="check the path and that the file may be read",
        ) from cause
    return decode(data, colour, str(path))


def check_encoder(extension: str) -> str:
    """Pillow's name of the format of an extension. Raises DataError if none can be encoded."""
    kind = _FORMATS.get(extension.lower().lstrip("."))
    if kind is None:
        raise DataError(
            f"cannot encode pictures as {extension!r}", fix=f"use one of {', '.join(_FORMATS)}"
        )
    return kind


def encode(pixels: U8, extension: str) -> bytes:
    """Compress (c, h, w) BGR or grey pixels as `extension` ("jpg", "png", …) says.

    Raises DataError for an extension without an encoder.
    """
    kind = check_encoder(extension)
    plane = pixels[0] if len(pixels) == 1 else pixels[::-1].transpose(1, 2, 0)
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(plane)).save(out, kind, quality=_JPEG_QUALITY)
    return out.getvalue()


def resize(pixels: U8, height: int, width: int) -> U8:
    """OpenCV's INTER_LINEAR for bytes, to (c, height, width).

    Source coordinate of output x: (x + 1/2) * w/width - 1/2, clamped to the picture; weights in
    1/2048; a row pass, then a column pass that drops 4 and 16 bits as OpenCV does. To exactly half
    in both directions OpenCV takes the mean of 2 x 2 pixels instead.
    """
    _, h, w = pixels.shape
    if (h, w) == (height, width):
        return pixels
    if (h, w) == (2 * height, 2 * width):
        wide = pixels.astype(np.uint16)
        pairs = wide[:, 0::2] + wide[:, 1::2]
        return ((pairs[:, :, 0::2] + pairs[:, :, 1::2] + 2) >> 2).astype(np.uint8)
    left, right, left_weight, right_weight = _taps(w, width, one_at_edge=True)
    upper, lower, upper_weight, lower_weight = _taps(h, height, one_at_edge=False)
    rows, at = np.unique(np.concatenate((upper, lower)), return_inverse=True)
    wide = pixels[:, rows].astype(np.int32)
    lines = (wide[:, :, left] * left_weight + wide[:, :, right] * right_weight) >> 4
    above = (lines[:, at[:height]] * upper_weight[:, None]) >> 16
    below = (lines[:, at[height:]] * lower_weight[:, None]) >> 16
    return ((above + below + 2) >> 2).astype(np.uint8)


def _taps(size: int, wanted: int, *, one_at_edge: bool) -> tuple[I64, I64, I32, I32]:
    """For each output place the two source places and their weights, 2048 together.

    Beyond the edge both places are the same. Along rows OpenCV gives one of them all the weight,
    along columns it keeps both weights, which rounds differently.
    """
    scale = size / wanted
    place: F32 = ((np.arange(wanted) + 0.5) * scale - 0.5).astype(np.float32)
    first = np.floor(place).astype(np.int64)
    part = place - first.astype(np.float32)
    if one_at_edge:
        part[(first < 0) | (first >= size - 1)] = 0
    one = np.float32(1 << _COEFFICIENT_BITS)
    weights = np.rint((1 - part) * one).astype(np.int32), np.rint(part * one).astype(np.int32)
    return np.clip(first, 0, size - 1), np.clip(first + 1, 0, size - 1), *weights


def _planar(picture: Image.Image, colour: Colour, where: str) -> U8:
    if colour == "grey" and picture.format in ("JPEG", "MPO"):
        picture.draft("L", picture.size)  # libjpeg's own luma, as OpenCV asks for
    if colour == "stored":
        _check_stored(picture, where)
    else:
        picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        picture = _upper_byte(picture)
    one = picture.mode in ("1", "L") if colour == "stored" else colour == "grey"
    if picture.mode == "PA" or (picture.mode == "P" and "transparency" in picture.info):
        picture = picture.convert("RGBA")
    if picture.mode == "LA":
        picture = picture.convert("L")
    if one and picture.mode in ("1", "L"):
        return np.asarray(picture.convert("L"))[np.newaxis].copy()
    pixels: U8 = np.asarray(picture.convert("RGB"))
    if one:
        luma = (pixels @ np.array([9798, 19235, 3735], dtype=np.int32)) >> 15  # libpng's weights
        return luma.astype(np.uint8)[np.newaxis]
    return np.ascontiguousarray(pixels[:, :, ::-1].transpose(2, 0, 1))


def _check_stored(picture: Image.Image, where: str) -> None:
    mode = picture.mode
    clear = mode == "P" and "transparency" in picture.info
    if mode in ("1", "L", "RGB", "P", "YCbCr") and not clear:
        return
    bands = 4 if clear else len(picture.getbands())
    kind = "16-bit " if mode.startswith("I") else ""
    raise DataError(
        f"{where}: a {kind}picture of {bands} channels ({mode}); nets take 1 or 3 of 8 bits",
        fix="set force_color or force_gray in transform_param, or convert the pictures",
    )


def _upper_byte(picture: Image.Image) -> Image.Image:
    """Bits 8 … 15 of each pixel, as OpenCV reads 16-bit files into bytes."""
    values = np.clip(np.asarray(picture), 0, 65535).astype(np.uint16)
    return Image.fromarray((values >> 8).astype(np.uint8))


def _reason(cause: Exception) -> str:
    text = str(cause)
    return "not a known format" if text.startswith("cannot identify") else text
