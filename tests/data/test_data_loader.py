from __future__ import annotations

import gc
import logging
import threading

import numpy as np
import pytest

from swcaffe.data.loader import Batch, Loader
from swcaffe.data.memory import MemorySource
from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource, Record, open_source
from swcaffe.data.transform import Transformer
from swcaffe.errors import DataError, ShapeError


class Fragile(DataSource):
    """Numbers as 1x1 pictures; some records are bad, some have another size."""

    def __init__(self, n: int, bad: tuple[int, ...] = (), wide: tuple[int, ...] = ()) -> None:
        self.n, self.bad, self.wide = n, bad, wide

    def __len__(self) -> int:
        return self.n

    def read(self, index: int) -> Record:
        self.check_index(index)
        if index in self.bad:
            raise DataError(f"record {index:08d}: cut short")
        shape = (1, 1, 2) if index in self.wide else (1, 1, 1)
        return Record(np.full(shape, index, dtype=np.uint8), (float(index),), f"{index:08d}")

    def describe(self) -> str:
        return f"fragile, {self.n} records"


def rows(batch: Batch) -> list[int]:
    data, labels = batch.tops
    assert np.array_equal(data.ravel(), labels)
    assert batch.keys == [f"{int(v):08d}" for v in labels]
    return [int(v) for v in labels]


def take(loader: Loader, count: int) -> list[list[int]]:
    return [rows(loader.next()) for _ in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_follow_the_order(threads):
    source = Fragile(5)
    loader = Loader(source, Order(5), 3, threads=threads, depth=2)
    assert loader.shapes() == ((3, 1, 1, 1), (3,))
    assert take(loader, 4) == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]
    assert loader.position == 12
    loader.close()


def test_a_bad_record_ends_the_run_in_its_turn_by_default():
    loader = Loader(Fragile(10, bad=(5,)), Order(10), 2)
    assert take(loader, 2) == [[0, 1], [2, 3]]
    with pytest.raises(DataError, match="00000005: cut short"):
        loader.next()
    assert loader.position == 4
    loader.close()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("batch", [1, 2, 3, 7, 10, 16])
def test_skipping_bad_records_keeps_batches_full_and_counts_them(batch, threads, caplog):
    good = [0, 1, 3, 4, 5, 8, 9]
    loader = Loader(
        Fragile(10, bad=(2, 6, 7)), Order(10), batch, on_bad="skip", threads=threads, depth=3
    )
    with caplog.at_level(logging.WARNING, "swcaffe"):
        batches = take(loader, 12)
    assert [row for rows_ in batches for row in rows_] == [good[t % 7] for t in range(12 * batch)]
    assert "record 00000002: cut short" in caplog.text
    assert loader.skipped == sum(item % 10 in (2, 6, 7) for item in range(loader.position))
    assert f"{loader.skipped} bad records skipped" in loader.summary()
    loader.close()


@pytest.mark.parametrize("bad", [(), (2, 6, 7)])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_run_resumed_from_its_position_goes_on_exactly(bad, shuffle, stop):
    def make(start: int) -> Loader:
        transformer = Transformer(train=True, mirror=True, crop=1)
        order = Order(10, shuffle=shuffle, seed=3)
        source = Fragile(10, bad=bad, wide=tuple(range(10)))
        return Loader(source, order, 3, transformer=transformer, seed=8, start=start, on_bad="skip")

    whole = make(0)
    expected = [[top.copy() for top in whole.next().tops] for _ in range(8)]
    first = make(0)
    for _ in range(stop):
        first.next()
    second = make(first.position)
    for tops in expected[stop:]:
        for mine, top in zip(second.next().tops, tops, strict=True):
            assert np.array_equal(mine, top)
    for loader in (whole, first, second):
        loader.close()


@pytest.mark.parametrize("batch", [1, 3, 4, 10, 12])
@pytest.mark.parametrize("bad", [(), (1,), (8, 9), (3, 4, 5, 9), (0, 1, 2, 3, 4, 5, 6, 7, 8)])
def test_a_stream_that_ends_gives_each_good_record_once_then_empty_batches(bad, batch):
    loader = Loader(Fragile(10, bad=bad), Order(10), batch, end=10, on_bad="skip")
    seen: list[int] = []
    while loader.position < 10:
        tops = loader.next()
        assert all(len(top) == len(tops.keys) for top in tops.tops)
        assert len(tops.keys) == batch or loader.position == 10
        seen += tops.items.tolist()
    assert seen == [i for i in range(10) if i not in bad]
    assert loader.skipped == len(bad)
    for _ in range(2):
        assert loader.next().tops[0].shape == (0, *tops.tops[0].shape[1:])
    loader.close()


def test_a_source_without_one_good_record_is_an_error_not_a_hang():
    loader = Loader(Fragile(4, bad=(0, 1, 2, 3)), Order(4), 3, on_bad="skip")
    for call in (loader.shapes, loader.next):
        with pytest.raises(DataError, match="not one record can be read"):
            call()
    loader.close()


@pytest.mark.parametrize("bad", [(), (0,)])
def test_pictures_of_different_sizes_in_one_batch_are_named(bad):
    loader = Loader(Fragile(6, wide=(3,), bad=bad), Order(6), 4, on_bad="skip")
    with pytest.raises(DataError, match=r"00000003.*\(1, 1, 2\).*0000000[01].*\(1, 1, 1\)"):
        loader.next()
    loader.close()


def test_batches_of_one_may_change_their_size():
    loader = Loader(Fragile(3, wide=(1,)), Order(3), 1)
    assert [loader.next().tops[0].shape for _ in range(4)] == [
        (1, 1, 1, 1),
        (1, 1, 1, 2),
        (1, 1, 1, 1),
        (1, 1, 1, 1),
    ]
    loader.close()


def test_a_crop_that_does_not_fit_is_not_taken_for_a_bad_record():
    transformer = Transformer(train=True, crop=2)
    loader = Loader(Fragile(3), Order(3), 1, transformer=transformer, on_bad="skip")
    with pytest.raises(ShapeError, match="crop_size 2"):
        loader.shapes()
    loader.close()


def test_a_batch_is_whole_until_the_next_one_is_taken():
    loader = Loader(Fragile(100), Order(100), 4, depth=2, threads=2)
    for k in range(50):
        batch = loader.next()
        before = batch.tops[0].copy()
        assert np.array_equal(before.ravel(), (4 * k + np.arange(4)) % 100)
        assert np.array_equal(batch.tops[0], before)
    loader.close()


def test_rows_of_any_shape_pass_without_a_transformer():
    data = np.arange(12, dtype=np.float64).reshape(4, 3)
    masks = np.arange(16, dtype=np.int64).reshape(4, 2, 2)
    source = open_source("memory", data=data, labels=[masks, np.arange(4)])
    loader = Loader(source, Order(4), 2)
    loader.next()
    tops = loader.next().tops
    assert all(top.dtype == np.float32 for top in tops)
    assert np.array_equal(tops[0], data[2:])
    assert np.array_equal(tops[1], masks[2:])
    assert tops[2].tolist() == [2, 3]
    loader.close()


def sorted_source(classes: int, of_each: int) -> MemorySource:
    labels = np.repeat(np.arange(classes), of_each)
    return MemorySource(np.zeros((len(labels), 1, 1, 1), dtype=np.uint8), labels)


def warnings_of(source: DataSource, caplog, *, shuffle: bool = False, batch: int = 10) -> str:
    caplog.clear()
    order = Order(len(source), shuffle=shuffle, seed=1)
    loader = Loader(source, order, batch, expect_mixed=True)
    for _ in range(8):
        loader.next()
    loader.close()
    return caplog.text


def test_records_sorted_by_class_are_warned_about_once_and_a_shuffle_mixes_them(caplog):
    source = sorted_source(classes=4, of_each=30)
    text = warnings_of(source, caplog)
    assert text.count("the first 20 labels are one class (0)") == 1
    assert "shuffle" in text
    assert warnings_of(source, caplog, shuffle=True) == ""
    assert warnings_of(sorted_source(classes=40, of_each=3), caplog) == ""
    assert warnings_of(source, caplog, batch=64) == ""


def test_a_forgotten_loader_ends_its_threads():
    before = set(threading.enumerate())
    loader = Loader(Fragile(10), Order(10), 2, threads=2)
    loader.next()
    assert len(set(threading.enumerate()) - before) == 2
    del loader
    gc.collect()
    assert not set(threading.enumerate()) - before


def test_an_unknown_source_names_the_known_ones():
    with pytest.raises(DataError, match=r"unknown data source 'lmbd' \(did you mean 'lmdb'\?\)"):
        open_source("lmbd")


def test_synthetic_pictures_are_the_same_every_time_and_show_their_class():
    source = open_source("synthetic", records=40, channels=3, height=8, width=6, classes=4)
    again = open_source("synthetic", records=40, channels=3, height=8, width=6, classes=4)
    means = []
    for i in range(40):
        record = source.read(i)
        assert record.data.shape == (3, 8, 6) and record.data.dtype == np.uint8
        assert record.labels == (i % 4,)
        assert np.array_equal(record.data, again.read(i).data)
        means.append(record.data.astype(np.float64))
    same = np.abs(means[0] - means[4]).mean()
    other = np.abs(means[0] - means[1]).mean()
    assert same < other / 2
