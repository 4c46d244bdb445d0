"""Text files that list pictures with labelled windows in them, as R-CNN trains on.

For each picture: `# number`, path, channels, height, width, how many windows, each on a line of its
own; then one line `class overlap x1 y1 x2 y2` a window, corners in pixels and inclusive. A window
is foreground or background by its overlap with an object.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swcaffe.arrays import F32, U8
from swcaffe.data.image import read_picture, resize
from swcaffe.data.source import DataSource, Record
from swcaffe.errors import DataError

__all__ = ["Picture", "Window", "WindowListSource", "read_windows"]


@dataclass(frozen=True, slots=True)
class Picture:
    """Path as written, channels, and the line of the list it starts on."""

    path: str
    channels: int
    line: int


@dataclass(frozen=True, slots=True)
class Window:
    """`box` is (x1, y1, x2, y2), inclusive, in picture number `picture`."""

    picture: int
    label: int
    overlap: float
    box: tuple[int, int, int, int]
    line: int


class _Lines:
    """The lines of a list that are not empty, one after the other, and where they stand."""

    def __init__(self, source: str | Path) -> None:
        try:
            text = Path(source).read_text(encoding="utf-8-sig", errors="surrogateescape")
        except OSError as cause:
            raise DataError(
                f"{source}: cannot read the list ({cause.strerror or cause})", fix="check `source`"
            ) from cause
        self.source, self.number = source, 0
        self._left = [(n, s) for n, s in enumerate(map(str.strip, text.split("\n")), 1) if s]
        self._left.reverse()

    def __bool__(self) -> bool:
        return bool(self._left)

    def wrong(self, what: str) -> DataError:
        """`what` is wrong with the line taken last."""
        return DataError(
            f"{self.source}:{self.number}: {what}",
            fix="write `# number`, path, channels, height, width, count on a line each, then the "
            "windows: class overlap x1 y1 x2 y2",
        )

    def next(self) -> str:
        """The next line."""
        if not self._left:
            raise self.wrong("the list ends within a picture")
        self.number, line = self._left.pop()
        return line

    def whole(self, what: str) -> int:
        """The next line as a number."""
        line = self.next()
        if not line.isdecimal():
            raise self.wrong(f"{what} is {line!r}, not a whole number")
        return int(line)

    def window(self, picture: int) -> Window:
        """The next line as a window."""
        line = self.next()
        try:
            label, overlap, x1, y1, x2, y2 = map(float, line.split())
            box = (int(x1), int(y1), int(x2), int(y2))
            return Window(picture, int(label), overlap, box, self.number)
        except (ValueError, OverflowError) as cause:
            raise self.wrong(f"{line!r} is not the six numbers of a window") from cause


def read_windows(source: str | Path) -> tuple[list[Picture], list[Window]]:
    """All pictures and windows of a list, in its order.

    Raises DataError, naming file and line, for a list that cannot be read or breaks the form.
    """
    lines = _Lines(source)
    pictures: list[Picture] = []
    windows: list[Window] = []
    while lines:
        start = lines.next()
        if not start.startswith("#"):
            raise lines.wrong(f"{start!r} stands where `# number` should start a picture")
        line, path = lines.number, lines.next()
        channels, *_ = (lines.whole(what) for what in ("channels", "height", "width"))
        pictures.append(Picture(path, channels, line))
        windows += [lines.window(len(pictures) - 1) for _ in range(lines.whole("count"))]
    return pictures, windows


def _round(value: float) -> int:
    """To the nearest whole number, halves away from 0, as C does."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


class WindowListSource(DataSource):
    """Windows cut out, resized to `crop` x `crop` and mirrored or not.

    Record 2 i is window i, record 2 i + 1 its mirror image. Data are float32 (c, crop, crop), the
    mean subtracted and scaled as Caffe's WindowData does: a mean image is cut at its centre, and
    lies under the result as it is, mirrored or not; what lies outside of the picture is 0.

    foreground, background  numbers of windows by their overlap; the background's label is 0
    """

    def __init__(
        self,
        source: str | Path,
        *,
        crop: int,
        root_folder: str = "",
        fg_threshold: float = 0.5,
        bg_threshold: float = 0.5,
        context_pad: int = 0,
        square: bool = False,
        mean: F32 | None = None,
        scale: float = 1.0,
    ) -> None:
        """`mean` is (1, 1, 1), (c, 1, 1) or an image at least as large as `crop`.

        context_pad  pixels of surroundings on each side of the result
        square       take a square around the window instead of stretching it
        """
        self.source, self.root_folder, self.crop = source, root_folder, crop
        self.pictures, self.windows = read_windows(source)
        self.foreground, self.background = [], []
        for i, window in enumerate(self.windows):
            if window.overlap >= fg_threshold:
                if window.label < 1:
                    raise DataError(
                        f"{source}:{window.line}: a foreground window has label {window.label}",
                        fix="give classes of objects from 1 on; 0 is the background",
                    )
                self.foreground.append(i)
            elif window.overlap < bg_threshold:
                self.background.append(i)
        self._objects = frozenset(self.foreground)
        self._context, self._square = context_pad, square
        self._mean, self._scale = _centre(mean, crop), np.float32(scale)
        self._check_channels()

    def _check_channels(self) -> None:
        """One number of channels, grey or colour, that the mean has too."""
        found = sorted({picture.channels for picture in self.pictures})
        if found not in ([], [1], [3]):
            raise DataError(
                f"{self.source}: pictures of {' and '.join(map(str, found))} channels",
                fix="list pictures that all have 3 channels, or all 1",
            )
        if self._mean is not None and found and len(self._mean) not in {1, *found}:
            raise DataError(
                f"a mean of {len(self._mean)} channels for pictures of {found[0]}",
                fix="give a mean of as many channels, or one mean_value",
            )

    def __len__(self) -> int:
        """Each window and its mirror image."""
        return 2 * len(self.windows)

    def read(self, index: int) -> Record:
        """The window of `index`, and its label."""
        self.check_index(index)
        number, mirrored = divmod(index, 2)
        window = self.windows[number]
        picture = self.pictures[window.picture]
        where = f"{self.source}:{window.line}"
        path = Path(self.root_folder + picture.path)
        try:
            pixels = read_picture(path, "bgr" if picture.channels == 3 else "grey")
        except DataError as error:
            error.where = error.where or where
            raise
        data = self._canvas(pixels, window, bool(mirrored), where)
        label = float(window.label) if number in self._objects else 0.0
        return Record(data, (label,), f"{picture.path} {window.box}")

    def describe(self) -> str:
        """Kind, list, how many windows of each kind."""
        return (
            f"window list {self.source}, {len(self.pictures)} pictures, "
            f"{len(self.foreground)} foreground and {len(self.background)} background windows"
        )

    def _canvas(self, pixels: U8, window: Window, mirrored: bool, where: str) -> F32:
        """The window on a canvas of 0."""
        x1, y1, x2, y2 = self._region(window)
        _, rows, cols = pixels.shape
        left, top, right, bottom = max(x1, 0), max(y1, 0), min(x2, cols - 1), min(y2, rows - 1)
        whole = (left, top, right, bottom) == (x1, y1, x2, y2) or self._context or self._square
        if right < left or bottom < top or not whole:
            raise DataError(
                f"{where}: window {window.box} does not lie within the picture of "
                f"{cols} x {rows} (w x h)",
                fix="write x1 y1 x2 y2 in pixels of the picture, from 0 on",
            )
        (at_x, width), (at_y, height) = (
            self._place(low, high, first, last, turned)
            for low, high, first, last, turned in (
                (x1, x2, left, right, mirrored),
                (y1, y2, top, bottom, False),
            )
        )
        canvas = np.zeros((len(pixels), self.crop, self.crop), np.float32)
        if width > 0 and height > 0:
            part = resize(pixels[:, top : bottom + 1, left : right + 1], height, width)
            spot = np.s_[:, at_y : at_y + height, at_x : at_x + width]
            canvas[spot] = part[:, :, ::-1] if mirrored else part
            if self._mean is not None:
                mean = np.broadcast_to(self._mean, canvas.shape)
                canvas[spot] -= mean[spot]
            canvas[spot] *= self._scale
        return canvas

    def _region(self, window: Window) -> tuple[int, int, int, int]:
        """The window with its surroundings, which may reach beyond the picture."""
        x1, y1, x2, y2 = window.box
        if not (self._context or self._square):
            return window.box
        half_w, half_h = (x2 - x1 + 1) / 2, (y2 - y1 + 1) / 2
        centre_x, centre_y = x1 + half_w, y1 + half_h
        if self._square:
            half_w = half_h = max(half_w, half_h)
        grow = self.crop / (self.crop - 2 * self._context)
        return (
            _round(centre_x - half_w * grow),
            _round(centre_y - half_h * grow),
            _round(centre_x + half_w * grow),
            _round(centre_y + half_h * grow),
        )

    def _place(self, low: int, high: int, first: int, last: int, mirrored: bool) -> tuple[int, int]:
        """Where first … last goes on the canvas if low … high fills it: (start, length)."""
        scale = self.crop / (high - low + 1)
        before, after = _round((first - low) * scale), _round((high - last) * scale)
        start = after if mirrored else before
        return start, min(_round((last - first + 1) * scale), self.crop - start)


def _centre(mean: F32 | None, crop: int) -> F32 | None:
    """The middle crop x crop of a mean image; values stay as they are."""
    if mean is None or mean.shape[1:] == (1, 1):
        return mean
    _, rows, cols = mean.shape
    if rows != cols or rows < crop:
        raise DataError(
            f"the mean has {rows} x {cols} pixels, windows are cut to {crop} x {crop}",
            fix="give a square mean image that is at least as large, or mean_value",
        )
    start = (rows - crop) // 2
    return mean[:, start : start + crop, start : start + crop]
