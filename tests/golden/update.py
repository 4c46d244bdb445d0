"""Programs whose printed text is checked in. Run this file to write the texts anew, then review."""

from __future__ import annotations

from pathlib import Path

from swcaffe.ir.expand import expand
from swcaffe.ir.printer import text
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.convolution import ConvForward, ConvGeometry
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.space import Config
from swcaffe.schedule.templates.conv_im2col import ConvForwardIm2col
from swcaffe.schedule.templates.gemm import GemmTemplate

FOLDER = Path(__file__).parent


def texts() -> dict[str, str]:
    """File name -> text."""
    gemm = GemmTemplate().build(
        Gemm(9, 17, 29, trans_b=True, has_bias=True),
        Config((("tile_m", 8), ("tile_n", 17), ("tile_k", 8))),
        TOY,
    )
    conv = ConvForwardIm2col().build(
        ConvForward(ConvGeometry(64, 20, 50, (12, 12), (5, 5), (1, 1), (0, 0), (1, 1))),
        Config((("images", 16), ("tile_m", 50), ("tile_n", 64), ("tile_k", 125))),
        SW26010,
    )
    return {
        "gemm_toy.txt": text(gemm),
        "gemm_toy_cpe.txt": text(expand(gemm)),
        "conv_lenet2.txt": text(conv),
    }


if __name__ == "__main__":
    for name, content in texts().items():
        (FOLDER / name).write_text(content)
