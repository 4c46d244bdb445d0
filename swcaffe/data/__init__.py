"""Records in: sources, their order, transformation, and batches read ahead of the solver.

A `DataSource` is a pure function from an index to a `Record`; an `Order` says which record is item
number t of this rank's endless stream; a `Transformer` turns pixels into network input with random
draws that depend only on (seed, t). A `Loader` puts the three together behind a `Prefetcher`.
Everything a run must save to continue exactly is therefore one integer: the items consumed.

Importing this package loads neither lmdb, h5py nor PIL; `open_source` loads a source by its name.
"""

from __future__ import annotations

from swcaffe.data.blocks import Batch
from swcaffe.data.draws import derive_seed
from swcaffe.data.loader import Loader
from swcaffe.data.prefetch import Prefetcher
from swcaffe.data.shard import Order
from swcaffe.data.source import SOURCES, DataSource, Record, open_source
from swcaffe.data.transform import Transformer

__all__ = [
    "Batch",
    "DataSource",
    "Loader",
    "Order",
    "Prefetcher",
    "Record",
    "SOURCES",
    "Transformer",
    "derive_seed",
    "open_source",
]
