"""ImageData."""

from __future__ import annotations

from swcaffe.data.draws import derive_seed
from swcaffe.data.shard import Order, rand_skip
from swcaffe.data.source import DataSource, open_source
from swcaffe.layers._data import RecordLayer
from swcaffe.net.layer import LAYERS, Blobs, exactly

__all__ = ["ImageData"]


@LAYERS.register("ImageData")
class ImageData(RecordLayer):
    """Pictures that a text file lists as `path label`.

    top[0]  (batch_size, 3 or 1, h, w), transformed; channels B, G, R
    top[1]  labels (batch_size)
    Reads image_data_param, transform_param.
    """

    tops = exactly(2)

    def read_batch_size(self) -> int:
        """image_data_param's."""
        self.warn_of_moved(self.param.image_data_param, "image_data_param")
        return int(self.param.image_data_param.batch_size)

    def open_source(self, tops: Blobs) -> DataSource:
        """The list."""
        param = self.param.image_data_param
        return open_source(
            "image_list",
            source=param.source,
            root_folder=param.root_folder,
            new_height=param.new_height,
            new_width=param.new_width,
            is_color=param.is_color,
        )

    def make_order(self) -> Order:
        """The list's order, or a new one for every pass; begun at random with rand_skip."""
        param = self.param.image_data_param
        seed = derive_seed(self.context.seed, self.name, "skip")
        skip = rand_skip(param.rand_skip, len(self.source), seed)
        return self.order_of(shuffle=param.shuffle, skip=skip)
