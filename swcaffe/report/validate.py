"""All published tables against the model, as one page: docs/validation.md."""

from __future__ import annotations

from collections.abc import Callable

from swcaffe.report.table import Table
from swcaffe.report.validate_dma import (
    dma_blocks,
    dma_cpes_get,
    dma_cpes_put,
    dma_strided,
    overlap,
)
from swcaffe.report.validate_gemm import best_products, ldm_products, micro_kernel

__all__ = ["TABLES", "page", "summary"]

TABLES: dict[str, Callable[[], Table]] = {
    "micro_kernel": micro_kernel,
    "ldm_products": ldm_products,
    "best_products": best_products,
    "dma_strided": dma_strided,
    "dma_blocks": dma_blocks,
    "dma_cpes_get": dma_cpes_get,
    "dma_cpes_put": dma_cpes_put,
    "overlap": overlap,
}
"""Name -> what compares it, in the order of the page."""


def summary(tables: list[Table]) -> list[str]:
    """One line a table."""
    return [
        "| table | rows | of them fitted | mean error | worst error | bounds kept |",
        "|---|--:|--:|--:|--:|--:|",
        *(table.summary() for table in tables),
    ]


def page(tables: list[Table]) -> str:
    """Markdown: a summary, then each table with its source, bounds and rows."""
    lines = [
        "# Validation",
        "",
        "What was published about the SW26010 beside what swcaffe says. An error is ours over "
        "published, less one. Written by `swcaffe validate --output docs/validation.md`.",
        "",
        *summary(tables),
    ]
    for table in tables:
        lines += ["", *table.markdown()]
    return "\n".join(lines) + "\n"
