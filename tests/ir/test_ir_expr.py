"""Index expressions: canonical, exact bounds, canonical text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swcaffe.ir.expr import COL, ROW, Affine, Clamp, Mod, affine, largest, mod, var

NAMES = ("i", "j", "k")


@st.composite
def expressions(draw):
    terms = {name: draw(st.integers(-5, 5)) for name in NAMES}
    total = Affine(draw(st.integers(-9, 9)))
    for name, factor in terms.items():
        total = total + var(name) * factor
    return total


VALUES = st.fixed_dictionaries({name: st.integers(0, 6) for name in NAMES})


@given(expressions(), expressions(), st.integers(-4, 4), VALUES)
def test_arithmetic_is_that_of_integers(a, b, factor, values):
    x, y = a.evaluate(values), b.evaluate(values)
    assert (a + b).evaluate(values) == x + y
    assert (a - b).evaluate(values) == x - y
    assert (a * factor).evaluate(values) == x * factor


@given(expressions(), expressions())
def test_equal_sums_are_equal_objects(a, b):
    assert a + b == b + a
    assert a - a == Affine()
    assert hash(a + b) == hash(b + a)


@given(expressions(), st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES}))
def test_bounds_are_attained(a, extents):
    values = [
        a.evaluate({"i": i, "j": j, "k": k})
        for i in range(extents["i"])
        for j in range(extents["j"])
        for k in range(extents["k"])
    ]
    assert a.bounds(extents) == (min(values), max(values))


def test_text_is_canonical():
    assert str(ROW * 8 + COL - 3) == "COL + 8*ROW - 3"
    assert str(var("i") * -1) == "-i"
    assert str(Affine()) == "0"
    assert str(Mod(var("k") + 1, 2)) == "(k + 1) % 2"
    assert str(Clamp(Affine(50) - ROW * 8, 8)) == "clamp(-8*ROW + 50, 0, 8)"


def test_mod_folds_what_is_known_and_is_never_negative():
    assert mod(Affine(-3), 2) == Affine(1)
    assert mod(var("k"), 2) == Mod(var("k"), 2)
    assert Mod(var("k") - 5, 3).evaluate({"k": 0}) == 1


def test_clamp_cuts_at_both_ends():
    clamp = Clamp(Affine(50) - ROW * 8, 8)
    assert [clamp.evaluate({"ROW": row}) for row in (0, 5, 6, 7)] == [8, 8, 2, 0]
    assert largest(clamp) == 8
    assert largest(3) == 3
    assert affine(4) == Affine(4)
