"""A list of pictures to a database, as Caffe's convert_imageset makes it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from swcaffe.data.database import Backend, create_database
from swcaffe.data.datum import encoded_value, raw_value
from swcaffe.data.draws import permutation
from swcaffe.data.image import check_encoder, encode, read_picture, resize
from swcaffe.data.image_list import read_list
from swcaffe.errors import DataError

__all__ = ["ConvertSummary", "convert_imageset"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConvertSummary:
    """Pictures stored, and why each of the others was left out."""

    stored: int
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        """One line with both counts."""
        return f"{self.stored} pictures stored, {len(self.skipped)} skipped"


def convert_imageset(
    rootfolder: str,
    listfile: str | Path,
    db_name: str | Path,
    *,
    gray: bool = False,
    shuffle: bool = False,
    backend: Backend = "lmdb",
    resize_width: int = 0,
    resize_height: int = 0,
    check_size: bool = False,
    encoded: bool = False,
    encode_type: str = "",
    seed: int = 0,
) -> ConvertSummary:
    """Store the listed pictures under `<index, 8 digits>_<path as listed>`; Caffe's flags.

    Pictures that cannot be read are logged and left out; their index stays unused. `seed` fixes the
    shuffle. With `check_size` pictures must have equal numbers of bytes, compressed ones when they
    are decoded. Raises DataError for that, and if no picture could be stored.
    """
    if encode_type:
        check_encoder(encode_type)
    entries = read_list(listfile)
    if shuffle:
        log.info("Shuffling data")
        entries = [entries[i] for i in permutation(len(entries), seed, 0)]
    log.info("A total of %d images.", len(entries))
    kind = encode_type or (_OWN_KIND if encoded else "")
    size = (resize_height, resize_width) if min(resize_height, resize_width) > 0 else None
    skipped: list[str] = []
    expected = 0  # bytes of the first picture
    with create_database(db_name, backend) as database:
        for i, entry in enumerate(entries):
            try:
                value, count = _store(Path(rootfolder + entry.path), entry.label, gray, size, kind)
            except DataError as error:
                skipped.append(f"{listfile}:{entry.line}: {error.message}")
                log.error("%s", skipped[-1])
                continue
            expected = expected or count
            if check_size and count != expected:
                raise DataError(
                    f"{listfile}:{entry.line}: {entry.path} has {count} bytes, not {expected}",
                    fix="give resize_width and resize_height",
                )
            database.put(f"{i:08d}_{entry.path}", value)
        if not database.count:
            raise DataError(
                f"{listfile}: none of {len(entries)} pictures can be read",
                fix="check ROOTFOLDER: it is put before each path as it is, so it ends in a slash",
            )
    return ConvertSummary(database.count, tuple(skipped))


_OWN_KIND = "as the file"


def _store(
    path: Path, label: int, gray: bool, size: tuple[int, int] | None, kind: str
) -> tuple[bytes, int]:
    """A picture's Datum and the bytes it has when decoded.

    Without a `kind` the Datum holds pixels; else a compressed picture, which is the file itself if
    the file is of that kind and no other size is asked for.
    """
    pixels = read_picture(path, "grey" if gray else "bgr")
    if size:
        pixels = resize(pixels, *size)
    if not kind:
        return raw_value(pixels, label), pixels.size
    own = _format(path.suffix)
    wanted = own if kind == _OWN_KIND else _format(kind)
    if not wanted:
        raise DataError(f"{path}: no extension to tell how to compress it", fix="give encode_type")
    data = path.read_bytes() if wanted == own and not size else encode(pixels, wanted)
    return encoded_value(data, label), pixels.size


def _format(extension: str) -> str:
    name = extension.lower().lstrip(".")
    return "jpeg" if name == "jpg" else name
