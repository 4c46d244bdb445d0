"""HDF5Data."""

from __future__ import annotations

from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource, open_source
from swcaffe.data.transform import Transformer
from swcaffe.errors import ParameterError
from swcaffe.layers._data import RecordLayer
from swcaffe.net.layer import LAYERS, Blobs, at_least

__all__ = ["HDF5Data"]


@LAYERS.register("HDF5Data")
class HDF5Data(RecordLayer):
    """Rows of the datasets that are named like the tops, through all listed files, for ever.

    top[i]  (batch_size, *row), float32
    Reads hdf5_data_param. A shuffle mixes the files, and the rows within each.
    """

    tops = at_least(1)

    def read_batch_size(self) -> int:
        """hdf5_data_param's."""
        return int(self.param.hdf5_data_param.batch_size)

    def make_transformer(self) -> Transformer | None:
        """None. Raises ParameterError for a transform_param."""
        if self.param.HasField("transform_param"):
            raise ParameterError(
                "does not transform data",
                fix="remove transform_param, and transform when writing the files",
            )
        return None

    def open_source(self, tops: Blobs) -> DataSource:
        """The files of the list."""
        names = list(self.param.top)
        return open_source("hdf5", source=self.param.hdf5_data_param.source, names=names)

    def make_order(self) -> Order:
        """Rows in order, or shuffled."""
        shuffle = self.param.hdf5_data_param.shuffle
        return self.order_of(shuffle=shuffle, groups=self.source.groups())
