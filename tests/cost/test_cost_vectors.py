"""Issue slots that a map is priced by, beside the scheduled instructions of the same loop."""

from __future__ import annotations

import pytest

from swcaffe.ir.intrinsics.map import Map
from swcaffe.ir.vector import maximum, trace
from swcaffe.machine.pipeline import SW26010_PIPELINE
from swcaffe.machine.sw26010 import SW26010
from swcaffe.microkernel.elementwise import best, per_vector

FORMULAS = {
    "copy": (1, lambda x: x),
    "relu": (1, lambda x: maximum(x, 0.0)),
    "add": (2, lambda x, y: x + y),
    "mul": (2, lambda x, y: x * y),
    "max2": (2, maximum),
}


@pytest.mark.parametrize("kernel", FORMULAS)
def test_slots_are_a_floor_that_scheduled_loops_miss_by_their_overhead_alone(kernel):
    """The schedule pays pointers, counter and branch too, a few slots for six vectors."""
    inputs, formula = FORMULAS[kernel]
    code = trace(inputs, formula)
    shape, vectors = (64 * SW26010.kernel.lanes,), 64
    counted = Map(code, ((0,),) * inputs).work((shape,) * (inputs + 1), SW26010).cycles / vectors
    scheduled = float(per_vector(*best(kernel, SW26010_PIPELINE)))
    assert counted <= scheduled <= counted + 0.5
