"""Base of layers that read records ahead: a source, an order and a transformer behind a loader."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import Array
from swcaffe.data.draws import derive_seed
from swcaffe.data.loader import Loader, OnBad
from swcaffe.data.mean import read_mean
from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource
from swcaffe.data.transform import Transformer
from swcaffe.errors import ParameterError
from swcaffe.net.layer import Blobs, Epoch, Layer, Phase, exactly
from swcaffe.proto.messages import Message

__all__ = ["RecordLayer"]

log = logging.getLogger(__name__)

MOVED = ("scale", "mean_file", "crop_size", "mirror")
"""Fields that Caffe once read here, and now only in transform_param."""


class RecordLayer(Layer):
    """Full batches of records, read by threads while the net computes.

    In TRAIN each of `size` ranks reads every size-th record; in TEST each rank reads all, as in
    Caffe. The state is the number of items consumed: batches read ahead and not used do not count.
    """

    bottoms = exactly(0)
    depth = 4
    """Batches read ahead; data_param's prefetch, in layers of other types too."""

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Open the source, shape the tops like its first record."""
        self.batch_size = self.read_batch_size()
        if self.batch_size < 1:
            raise ParameterError("batch_size is missing or 0", fix="set batch_size")
        self.depth = max(1, self.param.data_param.prefetch)
        self.transformer = self.make_transformer()
        self.source = self.open_source(tops)
        self.order = self.make_order()
        log.info("%s", self.source.describe())
        self._loader = self._load_from(0)
        for top, shape in zip(tops, self._loader.shapes(), strict=False):
            top.reshape(shape)

    @abstractmethod
    def read_batch_size(self) -> int:
        """Items of a batch, from the layer's own parameters."""

    @abstractmethod
    def open_source(self, tops: Blobs) -> DataSource:
        """The records. Raises DataError."""

    @abstractmethod
    def make_order(self) -> Order:
        """Which record comes when."""

    def make_transformer(self) -> Transformer | None:
        """transform_param's."""
        train = self.phase == Phase.TRAIN
        return Transformer.from_param(self.param.transform_param, train=train, read_mean=read_mean)

    def order_of(
        self, *, shuffle: bool = False, skip: int = 0, groups: Sequence[int] = ()
    ) -> Order:
        """This rank's order of the source; a shuffle is the same for all ranks."""
        training = self.phase == Phase.TRAIN
        return Order(
            len(self.source),
            rank=self.context.rank if training else 0,
            size=self.context.size if training else 1,
            shuffle=shuffle,
            seed=derive_seed(self.context.seed, self.name, "shuffle"),
            skip=skip,
            groups=groups,
        )

    def warn_of_moved(self, param: Message, field: str) -> None:
        """Say which fields of `param` have no effect here, as Caffe does not."""
        idle = [name for name in MOVED if param.HasField(name)]
        if idle:
            log.warning(
                'layer "%s" (%s): %s of %s has no effect; move it to transform_param',
                self.name,
                self.type,
                ", ".join(idle),
                field,
            )

    def _load_from(self, position: int, end: int | None = None) -> Loader:
        on_bad: OnBad = "skip" if self.context.bad_records == "skip" else "error"
        return Loader(
            self.source,
            self.order,
            self.batch_size,
            transformer=self.transformer,
            seed=derive_seed(self.context.seed, self.name, "transform", self.order.rank),
            start=position,
            end=end,
            depth=self.depth,
            on_bad=on_bad,
            expect_mixed=self.phase == Phase.TRAIN,
        )

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: records decide the shapes."""

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Take the next batch."""
        batch = self._loader.next()
        self.records = batch.keys
        for top, values in zip(tops, batch.tops, strict=False):
            top.reshape(values.shape)
            np.copyto(top.data, values)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Nothing to propagate to."""

    @property
    def wait_s(self) -> float:
        """Seconds the net has waited for data."""
        return self._loader.wait_s

    def summary(self) -> str:
        """One line: items, bad records, time waited."""
        return self._loader.summary()

    def state(self) -> dict[str, Array]:
        """Also the items consumed."""
        return {**super().state(), "position": np.array(self._loader.position, np.int64)}

    def load_state(self, state: dict[str, Array]) -> None:
        """Go on behind the items consumed."""
        super().load_state(state)
        if "position" in state:
            self.order = self.make_order()  # the seed may be another by now
            self._restart(int(state["position"]))

    def _restart(self, position: int, end: int | None = None) -> None:
        self._loader.close()
        self._loader = self._load_from(position, end)

    def epoch(self) -> Epoch | None:
        """Records of the source and of a batch."""
        return Epoch(len(self.source), self.batch_size)

    def start_pass(self) -> None:
        """Read each record once, in the source's order."""
        self.order = Order(len(self.source))
        self._restart(0, len(self.source))

    def left(self) -> int:
        """Records of the pass that are still to come, bad ones included."""
        return len(self.source) - self._loader.position

    def close(self) -> None:
        """Stop the readers, close the source."""
        if hasattr(self, "_loader"):
            self._loader.close()
        if hasattr(self, "source"):
            self.source.close()
