"""Batteries that many tests share: one layer on its own, and everything a layer must pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import swcaffe.layers  # noqa: F401  fills the registry
from swcaffe.engine.engine import Engine
from swcaffe.net.blob import Blob
from swcaffe.net.layer import LAYERS, LayerContext, Phase
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse

F32 = NDArray[np.float32]

UNTOUCHED = np.float32(-12345.678)


class OneLayer:
    """A layer with bottoms b0, b1, … and its tops, set up and reshaped.

    text  a whole `layer { … }`; a top named as the bottom of the same index is in place
    """

    def __init__(
        self,
        text: str,
        bottoms: Sequence[object],
        engine: Engine,
        *,
        phase: Phase = Phase.TRAIN,
        seed: int = 1,
        rank: int = 0,
        size: int = 1,
        bad_records: str = "error",
        overwriters: tuple[str, ...] = (),
    ) -> None:
        self.param = parse(text, messages.NetParameter).message.layer[0]
        context = LayerContext(
            engine,
            phase,
            seed,
            rank,
            size,
            bad_records=bad_records,
            overwriters=overwriters,
        )
        self.layer = LAYERS.get(self.param.type)(self.param, context)
        self.bottoms = [Blob(np.shape(b), f"b{i}") for i, b in enumerate(bottoms)]
        below = list(self.param.bottom)
        self.tops = [
            self.bottoms[i] if i < len(below) and below[i] == name else Blob((), name)
            for i, name in enumerate(self.param.top)
        ]
        if self.layer.is_loss and not self.tops:
            self.tops = [Blob((), "loss")]
        self.feed(bottoms, reshape=False)
        self.layer.setup(self.bottoms, self.tops)
        self.layer.reshape(self.bottoms, self.tops)
        self.layer.param_propagate_down = [spec.lr_mult != 0 for spec in self.param.param]
        weights = list(self.param.loss_weight) or [1.0] * self.layer.is_loss
        for top, weight in zip(self.tops, weights, strict=False):
            top.diff.fill(weight)

    def feed(self, bottoms: Sequence[object], *, reshape: bool = True) -> None:
        """Give the bottoms new values, and, with `reshape`, the layer their shapes."""
        for blob, values in zip(self.bottoms, bottoms, strict=True):
            blob.reshape(np.shape(values))
            blob.data[...] = values
        if reshape:
            self.layer.reshape(self.bottoms, self.tops)

    def forward(self, *bottoms: object) -> list[F32]:
        """Run on new values (or those that are there); copies of the tops."""
        if bottoms:
            self.feed(bottoms)
        self.layer.forward(self.bottoms, self.tops)
        return [top.data.copy() for top in self.tops]

    def backward(
        self, top_diffs: Sequence[object] | None = None, flags: Sequence[bool] | None = None
    ) -> list[F32 | None]:
        """Run on the tops' gradients (or those that are there); the gradient of each bottom.

        None stands for a bottom whose gradient the layer did not write.
        """
        flags = [True] * len(self.bottoms) if flags is None else flags
        for bottom in self.bottoms:
            if bottom not in self.tops:
                bottom.diff.fill(UNTOUCHED)
        for top, diff in zip(self.tops, top_diffs or [], strict=False):
            top.diff[...] = diff
        self.layer.backward(self.tops, flags, self.bottoms)
        return [
            None if b.count and np.all(b.diff == UNTOUCHED) else b.diff.copy() for b in self.bottoms
        ]


def layer_text(
    kind: str, params: str, bottoms: int, tops: int = 1, *, in_place: bool = False
) -> str:
    """A whole layer around its parameters."""
    names = [f"t{i}" for i in range(tops)]
    if in_place:
        names[0] = "b0"
    below = " ".join(f'bottom: "b{i}"' for i in range(bottoms))
    above = " ".join(f'top: "{name}"' for name in names)
    return f'layer {{ name: "layer" type: "{kind}" {below} {above} {params} }}'


def assert_near(ours: object, theirs: object, tolerance: float = 1e-5, what: str = "") -> None:
    """‖ours - theirs‖ <= tolerance * ‖theirs‖ in the 2-norm, and equal shapes."""
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    assert np.array_equal(np.isnan(a), np.isnan(b)), f"{what}: NaN in different places"
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    error, norm = np.linalg.norm(a - b), np.linalg.norm(b)
    assert error <= tolerance * norm, f"{what}: error {error:.3g} of norm {norm:.3g}"


def check_layer(
    kind: str,
    params: str,
    bottoms: Sequence[F32],
    *,
    engine: Engine,
    expected: Callable[..., Sequence[object] | object] | None = None,
    tops: int = 1,
    phase: Phase = Phase.TRAIN,
    flags: Sequence[bool] | None = None,
    kink: float | None = None,
    step: float = 1e-2,
    tolerance: float = 1e-3,
    in_place: bool = False,
    batch_axis: int | None = 0,
) -> OneLayer:
    """The whole battery for one layer on one set of inputs.

    expected   from the bottoms to the tops, by plain loops or formulas (float64 is welcome)
    flags      bottoms that take a gradient; all by default
    kink       a value of bottoms near which no finite difference is taken
    in_place   also run with the first top in place and expect the same
    batch_axis axis along which half a batch must give half the result's shape; None: no such axis
    """
    bottoms = [np.asarray(b, np.float32) for b in bottoms]
    flags = [True] * len(bottoms) if flags is None else list(flags)
    text = layer_text(kind, params, len(bottoms), tops)
    one = OneLayer(text, bottoms, engine, phase=phase)
    values = one.forward()
    if expected is not None:
        found = expected(*(b.astype(np.float64) for b in bottoms))
        wanted = list(found) if isinstance(found, list | tuple) else [found]
        for i, (a, b) in enumerate(zip(values, wanted, strict=True)):
            assert_near(a, b, what=f"top {i}")
    OneLayer(text, bottoms, engine, phase=Phase(1 - phase)).forward()
    if any(flags):
        _check_flags(one, bottoms, flags)
        _check_gradients(text, bottoms, engine, phase, flags, kink, step, tolerance)
    if batch_axis is not None:
        _check_reshape(text, bottoms, engine, phase, batch_axis)
    if in_place:
        inside = layer_text(kind, params, len(bottoms), tops, in_place=True)
        _check_in_place(text, inside, bottoms, engine, phase, flags)
    return one


def _check_flags(one: OneLayer, bottoms: Sequence[F32], flags: Sequence[bool]) -> None:
    """Gradients are written where asked for, and nowhere else; weights' gradients add up."""
    one.forward(*bottoms)
    diffs = [np.ones_like(top.data) for top in one.tops]
    found = one.backward(diffs, flags)
    first = [blob.diff.copy() for blob in one.layer.blobs]
    assert [f is not None for f in found] == list(flags), "wrong set of gradients was written"
    nothing = one.backward(diffs, [False] * len(flags))
    assert all(n is None for n in nothing), "a gradient was written that nobody asked for"
    for blob, once in zip(one.layer.blobs, first, strict=True):
        assert_near(blob.diff, 2 * once, what=f"accumulated gradient of {blob!r}")


def _check_gradients(
    text: str,
    bottoms: Sequence[F32],
    engine: Engine,
    phase: Phase,
    flags: Sequence[bool],
    kink: float | None,
    step: float,
    tolerance: float,
) -> None:
    """Central differences of a random weighting of all tops, taken in float64."""
    rng = np.random.default_rng(5)
    one = OneLayer(text, bottoms, engine, phase=phase)
    state = one.layer.state()
    weights = [rng.normal(size=t.shape).astype(np.float32) for t in one.forward()]
    for blob in one.layer.blobs:
        blob.diff.fill(0)
    found = one.backward(weights, flags)
    blobs = [blob.data.copy() for blob in one.layer.blobs]

    def objective() -> float:
        one.layer.load_state(state)
        tops = one.forward(*bottoms)
        return float(
            sum(np.sum(w * t.astype(np.float64)) for w, t in zip(weights, tops, strict=True))
        )

    bottoms = [b.copy() for b in bottoms]
    pairs = [(b, g) for b, g, flag in zip(bottoms, found, flags, strict=True) if flag]
    pairs += [(blob.data, blob.diff.copy()) for blob in one.layer.blobs if np.any(blob.diff)]
    assert pairs, "no gradient to check"
    for values, gradient in pairs:
        assert gradient is not None
        for place in np.ndindex(values.shape):
            here = values[place]
            if kink is not None and abs(here - kink) < 2 * step:
                continue
            values[place] = here + step
            above = objective()
            values[place] = here - step
            below = objective()
            values[place] = here
            estimate = (above - below) / (2 * step)
            scale = max(abs(estimate), abs(float(gradient[place])), 1.0)
            assert abs(estimate - gradient[place]) <= tolerance * scale, (
                f"gradient at {place} of {values.shape}: {gradient[place]}, estimate {estimate}"
            )
    for blob, before in zip(one.layer.blobs, blobs, strict=True):
        assert np.array_equal(blob.data, before) or phase == Phase.TRAIN


def _check_reshape(
    text: str, bottoms: Sequence[F32], engine: Engine, phase: Phase, axis: int
) -> None:
    """A layer that has seen other shapes computes what a fresh one does."""
    half = [np.take(b, range((b.shape[axis] + 1) // 2), axis) if b.ndim else b for b in bottoms]
    used, fresh = (OneLayer(text, bottoms, engine, phase=phase) for _ in range(2))
    state = used.layer.state()
    start = [blob.data.copy() for blob in used.layer.blobs]
    for shapes in (half, bottoms, half):
        used.layer.load_state(state)
        for blob, values in zip(used.layer.blobs, start, strict=True):
            blob.data[...] = values
        result = used.forward(*shapes)
    fresh_half = OneLayer(text, half, engine, phase=phase)
    fresh_half.layer.load_state(fresh.layer.state())
    for blob, values in zip(fresh_half.layer.blobs, start, strict=True):
        blob.data[...] = values
    for a, b in zip(result, fresh_half.forward(), strict=True):
        assert np.array_equal(a, b), "half a batch after a whole one differs from a fresh half"


def _check_in_place(
    text: str,
    inside: str,
    bottoms: Sequence[F32],
    engine: Engine,
    phase: Phase,
    flags: Sequence[bool],
) -> None:
    """Values and gradients in place equal those of the twin that is not."""
    twins = [OneLayer(t, bottoms, engine, phase=phase) for t in (text, inside)]
    for a, b in zip(*(t.forward() for t in twins), strict=True):
        assert np.array_equal(a, b), "values in place differ"
    diffs = [np.random.default_rng(3).normal(size=t.shape) for t in twins[0].tops]
    for a, b in zip(*(t.backward(diffs, flags) for t in twins), strict=True):
        if a is not None and b is not None:
            assert np.array_equal(a, b), "gradients in place differ"
    for a, b in zip(*(t.layer.blobs for t in twins), strict=True):
        assert np.array_equal(a.diff, b.diff), "weights' gradients in place differ"
