"""The GEMM schedule: every variant, every boundary, at both fidelities."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from template_battery import check_template, random_arrays, some_configs, template

import swcaffe.schedule.templates.gemm  # noqa: F401  registers
from swcaffe.cost.count import count
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.gemm import Gemm


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("end", ["overwrite", "accumulate", "bias"])
@pytest.mark.parametrize(("m", "n", "k"), [(9, 17, 13), (1, 1, 1), (8, 32, 8), (17, 33, 70)])
def test_gemm_variant_equals_its_definition(m, n, k, trans_a, trans_b, end):
    op = Gemm(m, n, k, trans_a, trans_b, end == "accumulate", end == "bias")
    check_template(template(op, "gemm"), op, TOY)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 70),
    st.integers(1, 90),
    st.integers(1, 80),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["overwrite", "accumulate", "bias"]),
)
def test_gemm_of_any_shape_equals_its_definition(m, n, k, trans_a, trans_b, end):
    op = Gemm(m, n, k, trans_a, trans_b, end == "accumulate", end == "bias")
    inputs = [x + 1 for x in random_arrays(op)[0]]  # a lone sum about 0 would be all rounding
    check_template(template(op, "gemm"), op, TOY, limit=2, inputs=inputs)


@pytest.mark.sw26010
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm_on_the_whole_mesh(trans_b):
    op = Gemm(50, 130, 70, trans_b=trans_b, has_bias=True)
    check_template(template(op, "gemm"), op, SW26010, limit=2)


def test_c_leaves_the_ldm_once_and_padding_never_leaves_it():
    op = Gemm(9, 17, 13)
    t = template(op, "gemm")
    for config in some_configs(t, op, TOY, 3):
        assert count(t.build(op, config, TOY), TOY).dma_put_bytes == 4 * 9 * 17


def test_an_empty_product_is_refused():
    op = Gemm(4, 0, 3)
    assert template(op, "gemm").refuse(op, TOY) == "an empty product"


def test_shortlist_is_the_start_of_the_space_by_sketch():
    op = Gemm(64, 500, 800, trans_b=True)
    t = template(op, "gemm")
    best = t.shortlist(op, SW26010, 3)
    costs = [t.sketch(op, config, SW26010) for config in t.space(op, SW26010)]
    assert [t.sketch(op, config, SW26010) for config in best] == sorted(costs)[:3]
