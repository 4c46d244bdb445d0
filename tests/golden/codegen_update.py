"""Generated C that is checked in. Run this file to write the texts anew, then review."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swcaffe.codegen.files import sources
from swcaffe.machine.toy import TOY
from swcaffe.operators.convolution import ConvForward, ConvGeometry
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.space import Config
from swcaffe.schedule.templates.conv_im2col import ConvForwardIm2col
from swcaffe.schedule.templates.gemm import GemmTemplate

FOLDER = Path(__file__).parent
SMALL = replace(TOY, name="small", ldm=replace(TOY.ldm, capacity_bytes=16384))


def texts() -> dict[str, str]:
    """File name -> text."""
    gemm = GemmTemplate().build(
        Gemm(8, 32, 40, trans_b=True, has_bias=True),
        Config((("tile_m", 8), ("tile_n", 32), ("tile_k", 8))),
        SMALL,
    )
    conv = ConvForwardIm2col().build(
        ConvForward(ConvGeometry(4, 3, 5, (6, 7), (3, 3), (1, 1), (0, 0), (1, 1))),
        Config((("images", 4), ("tile_m", 5), ("tile_n", 20), ("tile_k", 27))),
        SMALL,
    )
    files = sources({"gemm": gemm, "conv": conv}, SMALL)
    names = [name for name in files if name.startswith(("gemm", "conv"))]
    return {f"codegen_{name}": files[name] for name in names}


if __name__ == "__main__":
    for name, content in texts().items():
        (FOLDER / name).write_text(content)
