"""Programs whose printed text is checked in. Run this file to write the texts anew, then review."""

from __future__ import annotations

from pathlib import Path

from swcaffe.ir.expand import expand
from swcaffe.ir.printer import text
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationBackward
from swcaffe.operators.affine import AffineBackwardWeights
from swcaffe.operators.convolution import ConvForward, ConvGeometry
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.layout import Concat
from swcaffe.operators.lrn import LrnForward, LrnGeometry
from swcaffe.operators.pooling import MaxPoolForward, PoolGeometry
from swcaffe.schedule.space import Config
from swcaffe.schedule.templates.conv_im2col import ConvForwardIm2col
from swcaffe.schedule.templates.gemm import GemmTemplate
from swcaffe.schedule.templates.join import JoinTemplate
from swcaffe.schedule.templates.lrn import LrnTemplate
from swcaffe.schedule.templates.pooling import PoolTemplate
from swcaffe.schedule.templates.walk import WalkTemplate

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
    relu = ActivationBackward("relu", 1000)
    scale = AffineBackwardWeights(6, 5, 9, True, True)
    pool = MaxPoolForward(PoolGeometry(2, 5, (9, 8), (3, 3), (2, 2), (0, 0)))
    norm = LrnForward(LrnGeometry(3, 4, 3, 4, 3, 0.5, 0.75))
    walk, blocks = WalkTemplate(), (("deal", 0), ("block", 24))
    return {
        "walk_relu.txt": text(walk.build(relu, Config(blocks), TOY)),
        "walk_sums.txt": text(walk.build(scale, Config((("deal", 1), ("block", 32))), TOY)),
        "pooling.txt": text(PoolTemplate().build(pool, Config((("rows", 2), ("planes", 1))), TOY)),
        "lrn.txt": text(LrnTemplate().build(norm, Config((("deal", 0), ("block", 4))), TOY)),
        "join.txt": text(JoinTemplate().build(Concat(9, (3, 20)), Config((("block", 8),)), TOY)),
        "gemm_toy.txt": text(gemm),
        "gemm_toy_cpe.txt": text(expand(gemm)),
        "conv_lenet2.txt": text(conv),
    }


if __name__ == "__main__":
    for name, content in texts().items():
        (FOLDER / name).write_text(content)
