"""Data."""

from __future__ import annotations

from pathlib import Path

from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource, open_source
from swcaffe.errors import DataError, ParameterError
from swcaffe.layers._data import RecordLayer
from swcaffe.net.layer import LAYERS, Blobs, between
from swcaffe.proto import messages

__all__ = ["Data"]


@LAYERS.register("Data")
class Data(RecordLayer):
    """Datums of an LMDB or LevelDB database in key order, for ever.

    top[0]  (batch_size, c, h, w), transformed
    top[1]  labels (batch_size)
    Reads data_param (also `shuffle`, which is ours), transform_param. As in Caffe, `rand_skip` and
    `force_encoded_color` have no effect.
    """

    tops = between(1, 2)

    def read_batch_size(self) -> int:
        """data_param's."""
        self.warn_of_moved(self.param.data_param, "data_param")
        return int(self.param.data_param.batch_size)

    def open_source(self, tops: Blobs) -> DataSource:
        """The database; encoded pictures get the colours transform_param forces on them."""
        param, transform = self.param.data_param, self.param.transform_param
        if transform.force_color and transform.force_gray:
            raise ParameterError("both force_color and force_gray are set", fix="keep one of them")
        colour = "bgr" if transform.force_color else "grey" if transform.force_gray else "stored"
        lmdb = param.backend == messages.DataParameter.LMDB
        if not lmdb and Path(param.source, "data.mdb").is_file():
            raise DataError(
                f"{param.source} is an LMDB database, but backend is LEVELDB (the default)",
                fix="write backend: LMDB",
            )
        return open_source("lmdb" if lmdb else "leveldb", path=param.source, colour=colour)

    def make_order(self) -> Order:
        """Key order, or a new one for every pass with `shuffle`; dealt out to the ranks."""
        return self.order_of(shuffle=self.param.data_param.shuffle)
