"""GEMM in main memory: m, n and k blocked for the LDM, boundaries padded there, C stationary."""

from __future__ import annotations

from typing import ClassVar, cast

from swcaffe.ir.builder import Builder, round_up
from swcaffe.ir.stmt import Program
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.matmul import MatrixView, Product, ldm_bytes, sketch, split
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.template import Template, template_for

__all__ = ["GemmTemplate"]

MULTIPLES = (1, 2, 4, 8)
"""Tile lengths tried, in units of the smallest that fills the mesh."""
DEPTHS = (8, 16, 32, 64, 128, 256, 512)
"""Tile depths tried."""


@template_for
class GemmTemplate(Template):
    """Knobs tile_m, tile_n, tile_k; the longer of the two tile counts is shared by core groups."""

    name: ClassVar[str] = "gemm"
    op_class: ClassVar[type[Operator]] = Gemm

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Every shape fits; an empty product has nothing to schedule."""
        gemm = cast(Gemm, op)
        return None if min(gemm.m, gemm.n, gemm.k) > 0 else "an empty product"

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Equal tiles that fit the LDM, and give every core group work where there is enough."""
        gemm = cast(Gemm, op)
        unit_m = machine.mesh.rows * machine.kernel.tile_m
        unit_n = machine.mesh.cols * machine.kernel.tile_n
        knobs = (
            Knob("tile_m", _lengths(gemm.m, unit_m)),
            Knob("tile_n", _lengths(gemm.n, unit_n)),
            Knob("tile_k", tuple(sorted({split(gemm.k, depth, 8) for depth in DEPTHS}))),
        )
        _, product = _product(gemm, machine)
        blocks = max(-(-gemm.m // unit_m), -(-gemm.n // unit_n))
        wanted = min(machine.core_groups, blocks)

        def fits(config: Config) -> bool:
            m, n = config["tile_m"], config["tile_n"]
            shares = max(-(-gemm.m // m), -(-gemm.n // n))
            used = ldm_bytes(product, m, n, config["tile_k"])
            return shares >= wanted and used <= machine.ldm.usable_bytes

        return ConfigSpace(knobs, fits)

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """That of the product."""
        _, product = _product(cast(Gemm, op), machine)
        return sketch(product, config["tile_m"], config["tile_n"], config["tile_k"])

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """One product over the operands."""
        gemm = cast(Gemm, op)
        b, product = _product(gemm, machine)
        m, n = config["tile_m"], config["tile_n"]
        axis = "m" if -(-gemm.m // m) >= -(-gemm.n // n) else "n"
        product.emit(b, m, n, config["tile_k"], parallel=axis)
        return b.build()


def _lengths(total: int, unit: int) -> tuple[int, ...]:
    """Distinct tile lengths for an axis."""
    return tuple(sorted({min(total, round_up(split(total, unit * f), 1)) for f in MULTIPLES}))


def _product(gemm: Gemm, machine: Machine) -> tuple[Builder, Product]:
    """A builder with the operands declared, and the product over them."""
    b = Builder("gemm", (machine.mesh.rows, machine.mesh.cols))
    params = {operand.name: b.param(operand.name, operand.shape) for operand in gemm.inputs}
    c = b.param("c", gemm.outputs[0].shape)
    return b, Product(
        machine,
        MatrixView(params["a"], 0, 1),
        MatrixView(params["b"], 0, 1),
        MatrixView(c, 0, 1),
        gemm.m,
        gemm.n,
        gemm.k,
        gemm.trans_a,
        gemm.trans_b,
        gemm.accumulate,
        params.get("bias"),
        bias_axis=1,
    )
