from __future__ import annotations

import numpy as np
import pytest

from swcaffe.data.draws import derive_seed, item_words, permutation
from swcaffe.data.shard import Order, rand_skip
from swcaffe.errors import DataError, ParameterError


def take(order: Order, count: int) -> list[int]:
    return [order.index(t) for t in range(count)]


def test_words_are_the_outputs_of_splitmix64():
    published = [  # first outputs of the reference C program for state 1234567
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert item_words(1234567, 0, 2).ravel()[:5].tolist() == published


def test_words_of_an_item_do_not_depend_on_how_they_are_asked_for():
    together = item_words(7, 0, 1000)
    assert np.array_equal(together[990:], item_words(7, 990, 10))
    assert np.array_equal(together[999], item_words(7, 999, 1)[0])
    assert not np.array_equal(together, item_words(8, 0, 1000))
    assert item_words((1 << 64) - 1, 1 << 62, 2).shape == (2, 3)


def test_coins_and_offsets_of_many_items_are_uniform():
    words = item_words(1701, 0, 30000)
    heads = int((words[:, 0] & np.uint64(1)).sum())
    assert abs(heads - 15000) < 5 * np.sqrt(30000 / 4)
    counts = np.bincount((words[:, 1] % np.uint64(30)).astype(np.int64), minlength=30)
    assert ((counts - 1000) ** 2 / 1000).sum() < 29 + 6 * np.sqrt(2 * 29)


def test_derived_seeds_are_fixed_and_differ_by_name():
    assert derive_seed(1701, "data") == derive_seed(1701, "data")
    seeds = {derive_seed(s, name) for s in (0, 1, 2) for name in ("data", "data2", "shuffle")}
    assert len(seeds) == 9
    assert derive_seed(1, "2") != derive_seed(12)


def test_a_pass_is_one_fixed_permutation():
    assert sorted(permutation(100, 3, 0)) == list(range(100))
    assert permutation(8, 1701, 0).tolist() == FIRST_PASS
    assert permutation(8, 1701, 1).tolist() != FIRST_PASS


FIRST_PASS = [6, 0, 1, 5, 7, 3, 2, 4]


def test_records_come_in_key_order_and_wrap():
    assert take(Order(3), 8) == [0, 1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_ranks_deal_the_stream_out_like_caffes_solvers(size, shuffle):
    n, places = 7, 36
    stream = take(Order(n, shuffle=shuffle, seed=5), places)
    ranks = [Order(n, rank=r, size=size, shuffle=shuffle, seed=5) for r in range(size)]
    dealt = [ranks[place % size].index(place // size) for place in range(places)]
    assert dealt == stream


def test_every_pass_of_a_shuffle_is_a_new_permutation_of_all_records():
    order = Order(50, shuffle=True, seed=1)
    passes = [take(order, 150)[k : k + 50] for k in (0, 50, 100)]
    assert all(sorted(p) == list(range(50)) for p in passes)
    assert passes[0] != passes[1] != passes[2]
    assert take(order, 150) == take(Order(50, shuffle=True, seed=1), 150)
    assert passes[0] != take(Order(50, shuffle=True, seed=2), 50)


def test_an_order_can_be_entered_anywhere():
    whole = take(Order(10, shuffle=True, seed=9), 95)
    fresh = Order(10, shuffle=True, seed=9)
    assert [fresh.index(t) for t in reversed(range(95))] == whole[::-1]
    assert [fresh.epoch(t) for t in (0, 9, 10, 94)] == [0, 0, 1, 9]


def test_skipping_moves_into_the_stream():
    assert take(Order(5, skip=3), 4) == [3, 4, 0, 1]
    assert take(Order(5, shuffle=True, skip=3), 7) == take(Order(5, shuffle=True), 10)[3:]


def test_a_shuffle_of_files_keeps_the_rows_of_a_file_together():
    order = Order(9, shuffle=True, seed=2, groups=(2, 4, 3))
    file_of = np.repeat([0, 1, 2], (2, 4, 3))
    seen = set()
    for epoch in range(20):
        rows = [order.index(epoch * 9 + j) for j in range(9)]
        assert sorted(rows) == list(range(9))
        files = file_of[rows]
        assert np.count_nonzero(np.diff(files)) == 2
        seen.add(tuple(rows))
    assert len(seen) > 15


def test_no_records_are_an_error():
    with pytest.raises(DataError, match="no records"):
        Order(0)


def test_rand_skip_is_a_fixed_draw_below_its_limit():
    assert rand_skip(0, 5, 1) == 0
    draws = [rand_skip(10, 50, seed) for seed in range(200)]
    assert set(draws) == set(range(10))
    assert draws == [rand_skip(10, 50, seed) for seed in range(200)]
    with pytest.raises(ParameterError, match=r"rand_skip 50 is not below .* 50"):
        rand_skip(50, 50, 1)
