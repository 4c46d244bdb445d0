"""Pictures of curves: whole or not there, in the kinds matplotlib knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from swcaffe.errors import DataError
from swcaffe.report.curves import Curve
from swcaffe.report.plot import draw_curves

CURVES = {
    "train loss": Curve("train loss", [0, 10], [2.0, 1.0]),
    "test accuracy": Curve("test accuracy", [0, 10], [0.1, 0.9]),
}


@pytest.mark.parametrize(
    ("name", "first"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a", b"\x89PNG")]
)
def test_the_picture_has_the_kind_of_its_name(tmp_path: Path, name: str, first: bytes) -> None:
    draw_curves(CURVES, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(first)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_what_cannot_be_drawn_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown kind of picture 'pgn' .did you mean 'png'"):
        draw_curves(CURVES, tmp_path / "a.pgn")
    with pytest.raises(DataError, match=r"cannot write .*no/a\.png: No such file or directory"):
        draw_curves(CURVES, tmp_path / "no" / "a.png")
    assert not list(tmp_path.iterdir())
