"""The validation page: up to date, bounds kept, and able to tell when they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swcaffe.cli.main import main
from swcaffe.machine.pipeline import SW26010_PIPELINE
from swcaffe.report.table import Bound, Row, Table, percent, published
from swcaffe.report.validate import TABLES, page, summary
from swcaffe.report.validate_dma import SWDNN_PEAK, SWDNN_START
from swcaffe.report.validate_gemm import micro_kernel

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    return [build() for build in TABLES.values()]


def test_the_page_in_the_repository_is_up_to_date(tables: list[Table]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(tables)


@pytest.mark.parametrize(
    ("name", "measure", "limit"),
    [
        ("micro_kernel", "worst", 0.0),
        ("ldm_products", "mean", 0.04),
        ("best_products", "worst", 0.005),
        ("dma_strided", "mean", 0.03),
        ("dma_blocks", "mean", 0.10),
        ("dma_cpes_get", "mean", 0.10),
        ("dma_cpes_put", "mean", 0.15),
        ("overlap", "worst", 0.15),
    ],
)
def test_bounds_are_those_that_were_set_and_are_kept(
    tables: list[Table], name: str, measure: str, limit: float
) -> None:
    table = next(table for table in tables if table.name == name)
    bound = next(bound for bound in table.bounds if bound.measure == measure)
    assert bound.limit == limit
    assert bound.met(table.rows)


def test_fitted_rows_are_those_of_two_dma_tables(tables: list[Table]) -> None:
    fitted = {table.name: sum(row.fitted for row in table.rows) for table in tables}
    assert {name: count for name, count in fitted.items() if count} == {
        "dma_blocks": 20,
        "dma_cpes_get": 5,
    }


def test_swdnn_constants_are_the_best_that_its_table_allows(tables: list[Table]) -> None:
    """No other pair, 5 ns and 0.5 GB/s apart, has a smaller mean error."""
    table = next(table for table in tables if table.name == "dma_blocks")
    blocks = np.array([float(row.case[0]) for row in table.rows])
    target = np.array([row.target for row in table.rows]) * 1e9

    def error(start: float, peak: float) -> float:
        ours = 64 * blocks / (start + 64 * 128 * np.ceil(blocks / 128) / peak)
        return float(np.abs(ours / target - 1).mean())

    best = error(SWDNN_START.value, SWDNN_PEAK.value)
    others = [
        error(SWDNN_START.value + 5e-9 * i, SWDNN_PEAK.value + 5e8 * j)
        for i in range(-20, 21)
        for j in range(-10, 11)
    ]
    assert best == pytest.approx(min(others), rel=1e-9)
    assert best == pytest.approx(table.bounds[0].value(table.rows))


def test_the_order_of_the_overlap_figure_is_kept(tables: list[Table]) -> None:
    """Independent CPEs are fastest, by a factor that the model sees too."""
    rows = next(table for table in tables if table.name == "overlap").rows
    for start in range(0, len(rows), 3):
        independent, *together = rows[start : start + 3]
        for row in together:
            assert row.target > independent.target
            assert row.ours > independent.ours


def test_every_table_is_called_what_it_is_registered_as(tables: list[Table]) -> None:
    assert [table.name for table in tables] == list(TABLES)


def test_every_row_of_a_published_file_is_compared(tables: list[Table]) -> None:
    rows = {table.name: len(table.rows) for table in tables}
    assert rows["micro_kernel"] == len(published("micro_kernel").rows) == 8
    assert rows["dma_strided"] == 240
    assert rows["overlap"] == 3 * len(published("overlap").rows)
    assert rows["ldm_products"] == len(published("ldm_gemm").rows) == 75


def test_another_machine_gives_other_cycles() -> None:
    """Scalar integers on pipeline 0 only: they take slots from the multiply-adds."""
    groups = [
        replace(group, pipelines=(0,)) if group.name == "integer" else group
        for group in SW26010_PIPELINE.groups
    ]
    table = micro_kernel(replace(SW26010_PIPELINE, groups=tuple(groups)))
    ours = {row.case[0]: row.ours for row in table.rows}
    assert ours["final order, a step"] >= 16 + 6
    assert not table.bounds[0].met(table.rows)


ROWS = (Row(("a",), 10.0, 11.0), Row(("b",), 10.0, 7.0, fitted=True))
TABLE = Table(
    "t", "Title", "Who", "GB/s", ("case",), ROWS, (Bound("mean", 0.25), Bound("worst", 0.2)), "Why."
)


def test_a_long_table_lists_its_worst_rows_in_order() -> None:
    rows = tuple(Row((str(n),), 10.0, 10.0 + error) for n, error in enumerate((1, 4, -2, 3, -5)))
    table = replace(TABLE, rows=rows, shown=3)
    assert [row.case[0] for row in table.listed()] == ["1", "3", "4"]
    assert "The 3 of 5 rows with the largest errors:" in page([table])
    assert replace(table, shown=None).listed() == rows


def test_errors_and_bounds() -> None:
    assert [row.error for row in ROWS] == pytest.approx([0.1, -0.3])
    mean, worst = TABLE.bounds
    assert mean.value(ROWS) == pytest.approx(0.2)
    assert worst.value(ROWS) == pytest.approx(0.3)
    assert not worst.met(ROWS)
    assert Bound("worst", 0.31).met(ROWS)


def test_a_page_shows_sources_fitted_rows_and_missed_bounds() -> None:
    text = page([TABLE])
    assert "Source: Who." in text
    assert "| a | 10 | 11 | +10.0 % |" in text
    assert "| b | 10 | 7 | -30.0 % (fitted) |" in text
    assert "- worst error 30.0 %, bound 20.0 %: missed" in text
    assert summary([TABLE])[-1] == "| Title | 2 | 1 | 20.0 % | 30.0 % | 1 of 2 |"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.0 %"), (-0.0001, "0.0 %"), (0.12345, "+12.3 %"), (-0.2, "-20.0 %")]
)
def test_percentages_have_no_negative_zero(value: float, text: str) -> None:
    assert percent(value, "+") == text


def test_the_command_prints_chosen_tables_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.md"
    assert main(["validate", "--output", str(target), "micro_kernel"]) == 0
    out = capsys.readouterr().out
    assert "| Micro-kernel | 8 | 0 | 0.0 % | 0.0 % | 1 of 1 |" in out
    assert "Product in the LDMs" not in target.read_text(encoding="utf-8")


def test_the_command_names_the_nearest_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "microkernel"]) == 2
    assert (
        "unknown published table 'microkernel' (did you mean 'micro_kernel'?)"
        in capsys.readouterr().err
    )
