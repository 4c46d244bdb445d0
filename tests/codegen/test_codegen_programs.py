"""Generated C of every template: built by gcc with sanitizers, right to tolerance, counted exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_battery import build, check, needs_gcc, programs_of

from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates import (  # noqa: F401  each registers itself
    conv_im2col,
    conv_ldm,
    conv_weights,
    conv_weights_ldm,
    gemm,
)

SMALL = replace(TOY, name="small", ldm=replace(TOY.ldm, capacity_bytes=16384))
ENDS = {"overwrite": (False, False), "accumulate": (True, False), "bias": (False, True)}
VARIANTS = [(a, b, end) for a in (False, True) for b in (False, True) for end in ENDS]

GEOMETRIES = {
    "plain": ConvGeometry(4, 3, 5, (6, 7), (3, 3), (1, 1), (0, 0), (1, 1)),
    "grouped": ConvGeometry(4, 4, 6, (7, 5), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    "one_axis": ConvGeometry(2, 1, 2, (9,), (3,), (2,), (1,), (2,)),
    "dilated": ConvGeometry(4, 3, 20, (6, 6), (2, 2), (1, 2), (0, 1), (2, 1)),
    "padding": ConvGeometry(1, 3, 4, (5, 5), (5, 5), (1, 1), (4, 4), (1, 1)),
}
WHOLE = ConvGeometry(9, 3, 20, (8, 8), (5, 5), (1, 1), (2, 2), (1, 1))


def gemms(m, n, k):
    for trans_a, trans_b, end in VARIANTS:
        name = f"gemm_{'nt'[trans_a]}{'nt'[trans_b]}_{end}"
        yield name, Gemm(m, n, k, trans_a, trans_b, *ENDS[end])


def convolutions(geometries):
    for name, g in geometries.items():
        yield f"{name}_forward", ConvForward(g, has_bias=True)
        yield f"{name}_data", ConvBackwardData(g)
        yield f"{name}_weights", ConvBackwardWeights(g, True, True)


def check_all(directory, operators, machine, least, flags=""):
    """Build all programs of all operators in one folder, then run each."""
    programs, of = {}, {}
    for name, op in operators:
        for template, program in programs_of(op, machine).items():
            programs[f"{name}_{template}"], of[f"{name}_{template}"] = program, op
    assert len(programs) >= least
    build(directory, programs, machine, flags)
    for name, program in programs.items():
        check(directory, name, of[name], program, machine)


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "k"), [(17, 33, 70), (1, 1, 1), (9, 17, 13)])
def test_every_gemm_variant_on_four_cpes(tmp_path, m, n, k):
    check_all(tmp_path, gemms(m, n, k), TOY, 12)


@needs_gcc
@pytest.mark.slow
@pytest.mark.sw26010
def test_every_gemm_variant_on_the_whole_mesh(tmp_path):
    check_all(tmp_path, gemms(50, 130, 70), SW26010, 12)


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("against", [0, 1], ids=["in order", "against it"])
def test_convolution_in_three_directions_on_four_cpes_in_any_order(tmp_path, against):
    check_all(tmp_path, convolutions(GEOMETRIES), SMALL, 20, f"-DHOST_REVERSED={against}")


@needs_gcc
@pytest.mark.slow
@pytest.mark.sw26010
def test_convolution_in_three_directions_on_the_whole_mesh(tmp_path):
    check_all(tmp_path, convolutions({"whole": WHOLE}), SW26010, 6)
