"""Drawing curves with matplotlib (the extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swcaffe.errors import DataError, unknown_name
from swcaffe.files import write_atomically
from swcaffe.report.curves import Curve

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure
except ImportError as _error:
    raise DataError(
        f"drawing needs matplotlib ({_error})", fix="pip install 'swcaffe[plot]'"
    ) from _error

__all__ = ["draw_curves"]

LOSS_COLOURS = ("#1f4e79", "#7fa7cf", "#4d4d4d", "#a6a6a6")
SCORE_COLOURS = ("#b8490f", "#e3a277", "#7a5c00", "#d0b35c")


def draw_curves(curves: Mapping[str, Curve], path: Path, title: str = "") -> None:
    """Write a picture: losses on the left axis, accuracies (from 0 to 1) on the right."""
    scores = [c for name, c in curves.items() if "acc" in name]
    losses = [c for name, c in curves.items() if name != "lr" and "acc" not in name]
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    left = figure.add_subplot()
    left.set_xlabel("iteration")
    left.grid(alpha=0.25)
    lines = []
    for curve, colour in zip(losses, LOSS_COLOURS * len(losses), strict=False):
        style = "-o" if curve.name.startswith("test") else "-"
        lines += left.plot(
            curve.iterations, curve.values, style, color=colour, markersize=3, label=curve.name
        )
    if losses:
        left.set_ylabel("loss")
        left.set_ylim(bottom=0)
    axis = left.twinx() if losses else left
    for curve, colour in zip(scores, SCORE_COLOURS * len(scores), strict=False):
        lines += axis.plot(
            curve.iterations, curve.values, "-o", color=colour, markersize=3, label=curve.name
        )
    if scores:
        axis.set_ylabel("accuracy")
        axis.set_ylim(0, 1.02)
        best = max(scores[0].values)
        axis.axhline(best, color=SCORE_COLOURS[0], linewidth=0.6, linestyle=":")
        axis.annotate(f"{best:.4f}", (scores[0].iterations[0], best), fontsize=8, va="bottom")
    elif losses:
        axis.set_axis_off()
    left.legend(handles=lines, loc="center right", fontsize=8)
    if title:
        left.set_title(title)
    kind = path.suffix[1:]
    known = figure.canvas.get_supported_filetypes()
    if kind and kind not in known:
        raise DataError(unknown_name("kind of picture", kind, known), fix="--output NAME.png")
    with write_atomically(path, DataError) as part:
        figure.savefig(part, format=kind or "png")
