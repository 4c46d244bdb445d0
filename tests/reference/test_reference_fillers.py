"""Fillers draw from the distributions the reference Caffe draws from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from swcaffe.net.filler import fill
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse

TABLE = json.loads((Path(__file__).parent / "fillers.json").read_text())
EXACT = [name for name, about in TABLE.items() if "values" in about]
RANDOM = [name for name in TABLE if name not in EXACT]


def drawn(name: str) -> np.ndarray:
    """As many draws as were recorded, (passes, *shape)."""
    about = TABLE[name]
    shape = tuple(about["shape"])
    param = parse(about["filler"], messages.FillerParameter).message
    rng = np.random.default_rng(5)
    found = np.empty((about["draws"] // int(np.prod(shape)), *shape), dtype=np.float32)
    for values in found:
        fill(param, values, rng)
    return found


@pytest.mark.parametrize("name", EXACT)
def test_filler_without_chance_gives_the_recorded_values(name: str):
    np.testing.assert_allclose(drawn(name)[0], TABLE[name]["values"], rtol=1e-6)


@pytest.mark.parametrize("name", RANDOM)
def test_filler_has_the_recorded_distribution(name: str):
    """The share below each recorded quantile, within five sigma of the two samples' difference."""
    about = TABLE[name]
    values = drawn(name).ravel()
    bound = 5 * np.sqrt(0.25 / values.size) * np.sqrt(2)
    assert abs((values == 0).mean() - about["zeros"]) < bound
    quantiles = np.array(about["quantiles"])
    shares = (values[:, None] <= quantiles).mean(axis=0)
    continuous = quantiles != 0
    expected = np.linspace(0, 1, quantiles.size)[continuous]
    assert np.abs(shares[continuous] - expected).max() < bound


def test_positive_unitball_sums_to_one_along_the_first_axis():
    about = TABLE["positive_unitball"]
    np.testing.assert_allclose(about["sum_of_first_axis"], 1, rtol=1e-6)
    ours = drawn("positive_unitball")
    np.testing.assert_allclose(ours.sum(axis=2), 1, rtol=1e-5)


def test_sparse_gaussian_keeps_the_given_number_of_inputs_per_output_count():
    """sparse 3 of 12 outputs keeps a quarter of the weights."""
    assert TABLE["gaussian_sparse"]["zeros"] == pytest.approx(0.75, abs=0.005)
