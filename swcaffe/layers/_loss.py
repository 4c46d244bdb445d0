"""What losses and Accuracy share: normalisation, label checks, the rows of a class axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import NetError, ShapeError
from swcaffe.net.blob import Blob
from swcaffe.net.layer import Blobs, ItemError, Layer, exactly
from swcaffe.proto import messages
from swcaffe.proto.messages import Message

__all__ = ["ClassAxis", "LossLayer", "Normalizer", "check_labels", "ignore_label"]


@dataclass(frozen=True, slots=True)
class ClassAxis:
    """Scores seen as (outer, classes, inner)."""

    outer: int
    classes: int
    inner: int

    @classmethod
    def of(cls, scores: Blob, axis: int, labels: Blob) -> ClassAxis:
        """The view along `axis`. Raises ShapeError unless there is one label per position."""
        axis = scores.axis(axis)
        found = cls(scores.size(0, axis), scores.shape[axis], scores.size(axis + 1))
        if labels.count != found.outer * found.inner:
            raise ShapeError(
                f"labels {labels!r} hold {labels.count} values, scores {scores!r} with classes on "
                f"axis {axis} need {found.outer * found.inner}",
                fix="give one integer label per position, not one per class; or set axis",
            )
        return found

    @classmethod
    def of_items(cls, scores: Blob, labels: Blob) -> ClassAxis:
        """The view of (n, …), a class for each value of an item. Raises ShapeError as `of`."""
        items = scores.shape[0] if scores.shape else 1
        if labels.count != items:
            raise ShapeError(
                f"labels {labels!r} hold {labels.count} values for the {items} items of {scores!r}",
                fix="give one integer label per item",
            )
        return cls(items, scores.size(1), 1)


def ignore_label(param: Message) -> int | None:
    """ignore_label if the prototxt gives one; 0 is a legal one."""
    return int(param.ignore_label) if param.HasField("ignore_label") else None


def check_labels(
    labels: F32, classes: int, ignored: int | None, per_item: int = 1, what: str = "label"
) -> None:
    """Raise ItemError unless all labels, truncated toward zero, are ignored or 0 … classes - 1.

    labels    of any shape; `per_item` of them belong to one item of the batch
    what      "label" or "index", for the message
    """
    flat = labels.reshape(-1)
    if flat.size == 0 or (flat.min() > -1 and flat.max() < classes):
        return
    whole = np.trunc(flat)
    wrong = ~((whole >= 0) & (whole < classes))
    if ignored is not None:
        wrong &= whole != ignored
    if not wrong.any():
        return
    counted = whole if ignored is None else whole[whole != ignored]
    low, high, first = counted.min(), counted.max(), int(np.argmax(wrong))
    fix = "correct the data"
    if low >= 1 and high == classes:
        fix = f"is the {what} 1-based (1 … {classes})? Subtract 1 when converting the data"
    elif high >= classes:  # not if it is NaN
        fix += f", or give the layer more than {high:g} {'rows' if what == 'index' else 'classes'}"
    raise ItemError(
        f"{what} {flat[first]:g} of item {first // per_item} of the batch is not in "
        f"0 … {classes - 1}; those of this batch run from {low:g} to {high:g}",
        item=first // per_item,
        fix=fix,
    )


class Normalizer:
    """What a loss divides its sum by: loss_param's normalization, never less than 1."""

    def __init__(self, param: Message, default: int) -> None:
        """Explicit `normalization` wins, then the older `normalize`, then `default`."""
        if param.HasField("normalization"):
            self.mode: int = param.normalization
        elif param.HasField("normalize"):
            kinds = messages.LossParameter
            self.mode = kinds.VALID if param.normalize else kinds.BATCH_SIZE
        else:
            self.mode = default

    def __call__(self, items: int, positions: int, counted: float) -> float:
        """The divisor for `items` in a batch of `positions`, of which `counted` are not ignored."""
        kinds = messages.LossParameter
        sizes = {kinds.FULL: positions, kinds.VALID: counted, kinds.BATCH_SIZE: items}
        return max(float(sizes.get(self.mode, 1)), 1.0)


class LossLayer(Layer):
    """A loss of scores against labels (or targets) that take no gradient; one scalar first top."""

    bottoms = exactly(2)
    tops = exactly(1)
    is_loss = True

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check that both bottoms have one batch size; the loss is a scalar."""
        items = [bottom.shape[0] if bottom.shape else 1 for bottom in bottoms]
        if items[0] != items[1]:
            raise ShapeError(
                f"bottoms {bottoms[0]!r} and {bottoms[1]!r} differ in the number of items",
                fix="feed as many labels as items",
            )
        tops[0].reshape(())
        self._factor = aligned_zeros((1,))

    def factor(self, tops: Blobs, divisor: float) -> F32:
        """loss weight / divisor, as the array operators take."""
        self._factor[0] = tops[0].diff.reshape(()) / np.float32(divisor)
        return self._factor

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Overwrite the scores' gradient. Raises NetError if labels are asked for one."""
        if propagate_down[1]:
            raise NetError(
                f"cannot backpropagate to its labels {bottoms[1]!r}",
                fix="set propagate_down: false for the labels",
            )
        if propagate_down[0]:
            self.backward_scores(tops, bottoms)

    @abstractmethod
    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """Overwrite the diff of bottom 0."""
