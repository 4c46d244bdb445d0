"""Every layer against the arrays recorded from BVLC Caffe 1.0."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near
from reference.load import F32, Case, Step, cases, types

from swcaffe.engine.engine import Engine
from swcaffe.net.layer import Phase

FED_OTHERWISE = {"HDF5Data", "MemoryData"}  # tested with the data layers

TOLERANCE = 1e-5

SCRATCH = {("Scale-only_second_gradient", 0)}  # (case, bottom) whose diff Caffe uses as scratch


def recorded() -> list[Case]:
    return [case for kind in types() if kind not in FED_OTHERWISE for case in cases(kind)]


@pytest.mark.parametrize("case", recorded(), ids=str)
def test_layer_equals_the_reference_caffe(case: Case, engine: Engine) -> None:
    one = OneLayer(case.prototxt, case.steps[0].bottoms, engine, phase=Phase[case.phase])
    for blob, values in zip(one.layer.blobs, case.params, strict=True):
        assert blob.shape == values.shape
        blob.data[...] = values
    for number, step in enumerate(case.steps):
        tops = one.forward(*step.bottoms)
        for i, (ours, theirs) in enumerate(zip(tops, step.tops, strict=True)):
            assert_near(ours, theirs, TOLERANCE, f"step {number}, top {i}")
        for i, (blob, after) in enumerate(zip(one.layer.blobs, step.params_after, strict=True)):
            assert_near(blob.data, after, TOLERANCE, f"step {number}, blob {i}")
        if case.backward:
            wanted = [
                None if (str(case), i) in SCRATCH else diff
                for i, diff in enumerate(step.bottom_diffs)
            ]
            check_backward(one, number, step, wanted)


def check_backward(one: OneLayer, number: int, step: Step, wanted: list[F32 | None]) -> None:
    flags = [diff is not None for diff in wanted]
    diffs = one.backward(step.top_diffs, flags)
    for i, (ours, theirs) in enumerate(zip(diffs, wanted, strict=True)):
        if theirs is not None:
            assert_near(ours, theirs, TOLERANCE, f"step {number}, gradient of bottom {i}")
    for i, (blob, theirs) in enumerate(zip(one.layer.blobs, step.param_diffs, strict=True)):
        assert_near(blob.diff, theirs, TOLERANCE, f"step {number}, gradient of blob {i}")


def test_every_recorded_type_that_exists_has_cases() -> None:
    assert {"Convolution", "Pooling", "InnerProduct", "SoftmaxWithLoss"} <= set(types())
    assert all(np.isfinite(c.steps[0].tops[0]).all() for c in cases("Convolution"))
