"""Whole training steps on many nodes: arithmetic, and published speed-ups at 1024 nodes."""

from __future__ import annotations

import pytest

from swcaffe.parallel.simulate.allreduce import gather_cost, groups_of, reduce_cost
from swcaffe.parallel.simulate.network import AlphaBeta
from swcaffe.parallel.simulate.taihulight import ON_MPE, SUPERNODE, taihulight
from swcaffe.parallel.simulate.training import Compression, Gradient, training_step

ALEXNET_BYTES = 4 * 60_965_224
RESNET50_BYTES = 4 * 25_557_032
ALEXNET, RESNET50 = 94.17, 14.28
"""Images/s on one node (thesis table 7.2)."""


def speed_up(batch, images_per_s, nbytes, algorithm, network):
    compute_s = batch / images_per_s
    packed = [Gradient(nbytes, compute_s)]
    groups = groups_of(1024, SUPERNODE)
    return training_step(compute_s, packed, groups, network, algorithm=algorithm).speed_up


@pytest.mark.parametrize(
    ("batch", "images_per_s", "nbytes", "printed"),
    [
        (256, ALEXNET, ALEXNET_BYTES, 715.45),
        (128, ALEXNET, ALEXNET_BYTES, 561.58),
        (64, ALEXNET, ALEXNET_BYTES, 409.50),
        (64, RESNET50, RESNET50_BYTES, 928.15),
        (32, RESNET50, RESNET50_BYTES, 828.32),
    ],
)
def test_the_paper_s_speed_ups_at_1024_nodes_are_those_of_mpi_s_own_allreduce(
    batch, images_per_s, nbytes, printed
):
    native = speed_up(batch, images_per_s, nbytes, "halving_doubling", taihulight(ON_MPE))
    assert native == pytest.approx(printed, rel=0.10)


@pytest.mark.parametrize(
    ("images_per_s", "nbytes", "printed"),
    [(RESNET50, RESNET50_BYTES, 1004.4), (ALEXNET, ALEXNET_BYTES, 657.7)],
)
def test_the_thesis_s_speed_ups_at_1024_nodes_are_those_of_the_topology_aware_allreduce(
    images_per_s, nbytes, printed
):
    ours = speed_up(32, images_per_s, nbytes, "topology_aware", taihulight())
    assert ours == pytest.approx(printed, rel=0.10)
    native = speed_up(32, images_per_s, nbytes, "halving_doubling", taihulight(ON_MPE))
    assert native < 0.9 * printed


NETWORK = AlphaBeta(1e-6, 1e-9, 4e-9, 16)
GROUPS = groups_of(8, 16)


def test_what_computing_hides_is_not_in_the_step():
    """Two gradients of 1 and 2 s; the first is ready early, the second when computing ends."""
    one = reduce_cost("topology_aware", GROUPS, 1e9, NETWORK).seconds
    two = reduce_cost("topology_aware", GROUPS, 2e9, NETWORK).seconds
    step = training_step(10, [Gradient(1e9, 5), Gradient(2e9, 10)], GROUPS, NETWORK)
    assert step.exchange_s == pytest.approx(one + two)
    assert step.total_s == pytest.approx(10 + two)
    assert step.share == pytest.approx(two / (10 + two))
    assert step.speed_up == pytest.approx(8 * 10 / (10 + two))


def test_an_exchange_waits_for_the_one_before():
    one = reduce_cost("topology_aware", GROUPS, 1e9, NETWORK).seconds
    step = training_step(1, [Gradient(1e9, 0.9), Gradient(1e9, 1)], GROUPS, NETWORK)
    assert step.total_s == pytest.approx(0.9 + 2 * one)


def test_compression_costs_selection_gathering_and_adding_up():
    compression = Compression(0.001, 8, select_s_per_byte=1e-12, apply_s_per_entry=1e-9)
    entries = 0.001 * 1e9 / 4
    want = 1e-3 + gather_cost(GROUPS, 8 * entries, NETWORK).seconds + 8 * entries * 1e-9
    step = training_step(1, [Gradient(1e9, 1)], GROUPS, NETWORK, compression=compression)
    assert step.total_s == pytest.approx(1 + want)


def test_dense_is_chosen_where_compression_would_take_longer():
    """p D / 2 of the bytes, doubled by indices, reaches the dense ones when p D is 1."""
    compression = Compression(0.5)
    dense = training_step(1, [Gradient(1e9, 1)], GROUPS, NETWORK)
    either = training_step(1, [Gradient(1e9, 1)], GROUPS, NETWORK, compression=compression)
    assert either.total_s == dense.total_s
    barred = [Gradient(1e9, 1, compressible=False)]
    sparse = Compression(0.001)
    assert training_step(1, barred, GROUPS, NETWORK, compression=sparse).total_s == dense.total_s
