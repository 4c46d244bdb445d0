"""Published tables beside what the model says: rows, errors, bounds, and their Markdown."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Literal

__all__ = ["Bound", "Published", "Row", "Table", "published"]

Measure = Literal["mean", "worst"]


@dataclass(frozen=True, slots=True)
class Published:
    """A file of published figures.

    title, source  its first two lines
    rows           column name -> text
    """

    title: str
    source: str
    rows: tuple[dict[str, str], ...]


def published(name: str) -> Published:
    """The file swcaffe/report/published/NAME.csv."""
    place = resources.files("swcaffe.report").joinpath("published", f"{name}.csv")
    title, source, *lines = place.read_text(encoding="utf-8").splitlines()
    return Published(
        title.removeprefix("# "), source.removeprefix("# source: "), tuple(csv.DictReader(lines))
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what it is of, what was published, what we say.

    fitted  whether a constant of the model was fitted on it
    """

    case: tuple[str, ...]
    target: float
    ours: float
    fitted: bool = False

    @property
    def error(self) -> float:
        """Relative, with its sign: positive if ours is larger."""
        return self.ours / self.target - 1


@dataclass(frozen=True, slots=True)
class Bound:
    """What the errors of a table's rows may be, in absolute value."""

    measure: Measure
    limit: float

    def value(self, rows: tuple[Row, ...]) -> float:
        """What they are."""
        errors = [abs(row.error) for row in rows]
        return max(errors) if self.measure == "worst" else sum(errors) / len(errors)

    def met(self, rows: tuple[Row, ...]) -> bool:
        """Whether they keep the bound."""
        return self.value(rows) <= self.limit


@dataclass(frozen=True, slots=True)
class Table:
    """A published table.

    columns  what the parts of a row's case are
    notes    how ours is computed, what is assumed, what does not fit and why
    shown    rows that the page lists, those with the largest errors; all if None
    """

    name: str
    title: str
    source: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    bounds: tuple[Bound, ...]
    notes: str
    shown: int | None = None

    def markdown(self) -> Iterator[str]:
        """Lines of its section."""
        yield from (f"## {self.title}", "", f"Source: {self.source}.", "", self.notes, "")
        for bound in self.bounds:
            verdict = "kept" if bound.met(self.rows) else "missed"
            yield (
                f"- {bound.measure} error {percent(bound.value(self.rows))}, "
                f"bound {percent(bound.limit)}: {verdict}"
            )
        heads = [*self.columns, f"published, {self.unit}", f"ours, {self.unit}", "error"]
        left, right = "---", "--:"
        rules = [left] * len(self.columns) + [right] * 3
        if self.shown is not None and self.shown < len(self.rows):
            yield from ("", f"The {self.shown} of {len(self.rows)} rows with the largest errors:")
        yield from ("", _line(heads), _line(rules))
        for row in self.listed():
            mark = " (fitted)" if row.fitted else ""
            yield _line(
                [*row.case, _number(row.target), _number(row.ours), percent(row.error, "+") + mark]
            )

    def listed(self) -> tuple[Row, ...]:
        """Rows that the page lists, in their order."""
        worst = sorted(self.rows, key=lambda row: -abs(row.error))[: self.shown]
        least = abs(worst[-1].error)
        return tuple(row for row in self.rows if abs(row.error) >= least)

    def summary(self) -> str:
        """Its line in the summary."""
        fitted = sum(row.fitted for row in self.rows)
        mean, worst = (Bound(measure, 0).value(self.rows) for measure in _MEASURES)
        kept = sum(bound.met(self.rows) for bound in self.bounds)
        return _line(
            [
                self.title,
                str(len(self.rows)),
                str(fitted),
                percent(mean),
                percent(worst),
                f"{kept} of {len(self.bounds)}",
            ]
        )


_MEASURES: tuple[Measure, Measure] = ("mean", "worst")


def percent(value: float, sign: str = "") -> str:
    """A fraction as percent, with one digit after the point."""
    return f"{100 * value:{sign}.1f} %".replace("-0.0 %", "0.0 %").replace("+0.0 %", "0.0 %")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
