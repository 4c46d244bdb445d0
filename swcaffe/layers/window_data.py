"""WindowData."""

from __future__ import annotations

import numpy as np

from swcaffe.arrays import F32
from swcaffe.data.draws import derive_seed, item_words
from swcaffe.data.mean import read_mean
from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource
from swcaffe.data.transform import Transformer
from swcaffe.errors import DataError, ParameterError
from swcaffe.layers._data import RecordLayer
from swcaffe.net.layer import LAYERS, Blobs, Epoch, Phase, exactly

__all__ = ["WindowData"]


class WindowOrder(Order):
    """Draws with replacement: first the background of each batch, then its foreground.

    Item t is a function of (seed, t, rank), so that it can be resumed from any place. Records are
    those of a window list: 2 i is window i, 2 i + 1 its mirror image.
    """

    def __init__(
        self,
        pools: tuple[list[int], list[int]],
        shares: tuple[int, int],
        mirror: bool,
        order: Order,
    ) -> None:
        """`pools` are window numbers, and `shares` items of a batch, of (background, foreground).

        order  gives rank, size and seed
        """
        super().__init__(order.n, rank=order.rank, size=order.size, seed=order.seed)
        self._pools, self._shares, self._mirror = pools, shares, mirror

    def index(self, t: int) -> int:
        """Record of this rank's item t >= 0."""
        background, foreground = self._shares
        pool = self._pools[t % (background + foreground) >= background]
        coin, choice, _ = item_words(self.seed, t * self.size + self.rank, 1)[0]
        return 2 * pool[int(choice) % len(pool)] + (self._mirror and int(coin) % 2)


@LAYERS.register("WindowData")
class WindowData(RecordLayer):
    """Windows of pictures drawn at random, a share of each batch of them with objects (R-CNN).

    top[0]  (batch_size, channels, crop_size, crop_size)
    top[1]  labels (batch_size): 0 for the background, whose windows come first
    Reads window_data_param (scale included, cache_images ignored) and crop_size, mirror and mean of
    transform_param. Draws are with replacement, so there is no pass over the list.
    """

    tops = exactly(2)

    def read_batch_size(self) -> int:
        """window_data_param's."""
        return int(self.param.window_data_param.batch_size)

    def make_transformer(self) -> Transformer | None:
        """None: windows are cut by the source."""
        return None

    def open_source(self, tops: Blobs) -> DataSource:
        """The list, and in it windows of both kinds. Raises ParameterError, DataError."""
        param, transform = self.param.window_data_param, self.param.transform_param
        crop = int(transform.crop_size)
        if not crop > 2 * param.context_pad:
            raise ParameterError(
                f"crop_size {crop} leaves no room within context_pad {param.context_pad} on each "
                "side",
                fix="set crop_size in transform_param, above twice the context_pad",
            )
        if param.crop_mode not in {"warp", "square"}:
            raise ParameterError(
                f"crop_mode {param.crop_mode!r} is unknown", fix='give "warp" or "square"'
            )
        from swcaffe.data.window_list import WindowListSource

        source = WindowListSource(
            param.source,
            crop=crop,
            root_folder=param.root_folder,
            fg_threshold=param.fg_threshold,
            bg_threshold=param.bg_threshold,
            context_pad=param.context_pad,
            square=param.crop_mode == "square",
            mean=self._mean(),
            scale=param.scale,
        )
        self._pools = source.background, source.foreground
        return source

    def _mean(self) -> F32 | None:
        transform = self.param.transform_param
        if transform.mean_file and transform.mean_value:
            raise ParameterError("both mean_file and mean_value are given", fix="keep one of them")
        if transform.mean_file:
            return read_mean(transform.mean_file)
        values = np.array(transform.mean_value, np.float32).reshape(-1, 1, 1)
        return values if values.size else None

    def make_order(self) -> Order:
        """Random draws; in TEST too. Raises DataError if there is nothing to draw from."""
        share = np.float32(self.param.window_data_param.fg_fraction)
        foreground = int(np.float32(self.batch_size) * share)
        shares = (self.batch_size - foreground, foreground)
        for kind, pool, wanted in zip(
            ("background", "foreground"), self._pools, shares, strict=True
        ):
            if wanted and not pool:
                raise DataError(
                    f"{self.source.describe()}: no {kind} windows, of which each batch takes "
                    f"{wanted}",
                    fix="change fg_threshold, bg_threshold or fg_fraction, or list some",
                )
        training = self.phase == Phase.TRAIN
        base = Order(
            len(self.source),
            rank=self.context.rank if training else 0,
            size=self.context.size if training else 1,
            seed=derive_seed(self.context.seed, self.name, "windows"),
        )
        return WindowOrder(self._pools, shares, self.param.transform_param.mirror, base)

    def epoch(self) -> Epoch | None:
        """None: draws are with replacement."""
        return None
