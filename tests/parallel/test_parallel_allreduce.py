"""Every algorithm against the sum in rank order, on ranks that run at the same time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.errors import UsageError
from swcaffe.parallel.allreduce import ALGORITHMS, allreduce, rounds
from swcaffe.parallel.threads import run_ranks

NAMES = [*ALGORITHMS, "native"]


def vectors(size, count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(count).astype(np.float32) for _ in range(size)]


def dealt_into(size, group):
    return tuple(tuple(range(i, min(i + group, size))) for i in range(0, size, group))


def summed(name, parts, groups=None, delay=None):
    def work(comm):
        if delay == comm.rank:
            time.sleep(0.01)
        data = parts[comm.rank].copy()
        allreduce(comm, data, name, groups)
        return data

    return run_ranks(len(parts), work)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(NAMES),
    st.integers(1, 9),
    st.one_of(st.integers(0, 40), st.sampled_from([128, 1000, 4097])),
    st.integers(1, 5),
    st.integers(0, 9),
)
def test_sum_equals_that_in_rank_order_and_is_the_same_on_all_ranks(
    name, size, count, group, late_rank
):
    parts = vectors(size, count)
    groups = dealt_into(size, group)
    results = summed(name, parts, groups)
    want = np.sum(np.array(parts, np.float64), axis=0)
    scale = max(float(np.linalg.norm(want)), float(np.finfo(np.float32).tiny))
    assert np.linalg.norm(results[0] - want) <= 1e-6 * scale
    for other in results[1:] + summed(name, parts, groups, delay=late_rank):
        assert other.tobytes() == results[0].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_groups_of_unequal_size_and_scattered_ranks_are_summed_too(name):
    parts = vectors(7, 50)
    groups = ((0, 3, 6), (1, 4), (2, 5))
    for got in summed(name, parts, groups):
        np.testing.assert_allclose(got, np.sum(parts, axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", list(ALGORITHMS))
@pytest.mark.parametrize("size", [2, 3, 5, 6, 8, 16, 17])
def test_every_block_of_every_rank_is_counted_once(name, size):
    """The rounds alone, on sets of contributors: adding one twice or losing one shows."""
    groups = dealt_into(size, 4)
    have = [[[rank] for _ in range(size)] for rank in range(size)]
    for one in rounds(name, groups):
        sent = [have[s][f:e] for s, _, f, e in one.messages.tolist()]
        sent = [[list(block) for block in part] for part in sent]
        for (_, target, first, _), part in zip(one.messages.tolist(), sent, strict=True):
            for i, block in enumerate(part, first):
                have[target][i] = have[target][i] + block if one.add else block
    assert all(sorted(block) == list(range(size)) for rank in have for block in rank)


def test_halving_meets_the_textbook_for_powers_of_two():
    for one, distance in zip(
        rounds("halving_doubling", ((*range(8),),)), [4, 2, 1, 1, 2, 4], strict=True
    ):
        source, target, first, end = one.messages.T
        np.testing.assert_array_equal(abs(source - target), distance)
        np.testing.assert_array_equal(end - first, distance)


def crossing(name, groups):
    """Blocks that leave a group, over all messages."""
    home = {rank: i for i, group in enumerate(groups) for rank in group}
    return sum(
        end - first
        for one in rounds(name, groups)
        for source, target, first, end in one.messages.tolist()
        if home[source] != home[target]
    )


def test_dealing_ranks_over_two_supernodes_of_four_quarters_what_crosses():
    """8 nodes, 2 supernodes: n beta2 becomes 1/4 n beta2 in reduce-scatter and allgather together."""
    groups = dealt_into(8, 4)
    per_rank = [crossing(name, groups) / 64 for name in ("halving_doubling", "topology_aware")]
    assert per_rank == [1.0, 0.25]


def test_hierarchical_sends_across_no_more_than_topology_aware():
    groups = dealt_into(32, 8)
    assert crossing("hierarchical", groups) == crossing("topology_aware", groups)


def test_an_unknown_algorithm_lists_the_known():
    with pytest.raises(UsageError, match=r"'halving_dubling' \(did you mean 'halving_doubling'"):
        list(rounds("halving_dubling", ((0, 1),)))


@pytest.mark.parametrize("groups", [((0, 1), (1, 2)), ((0, 2),), ((0, 1), ()), ((1, 2),)])
def test_groups_that_are_no_partition_are_refused(groups):
    with pytest.raises(UsageError, match="not a partition of ranks"):
        list(rounds("ring", groups))


def test_groups_of_another_number_of_ranks_are_refused_before_anything_is_sent():
    with pytest.raises(UsageError, match=r"groups \(\(0, 1\),\) for 3 ranks"):
        summed("ring", vectors(3, 10), ((0, 1),))
