"""Fillers: the first values of weights, by Caffe's seven rules.

fan_in is count / shape[0], fan_out count / shape[1] (count itself for one axis or none). Glorot and
Bengio 2010 (xavier), He et al. 2015 (msra).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from swcaffe.arrays import F32
from swcaffe.errors import ParameterError, unknown_name
from swcaffe.proto import messages
from swcaffe.proto.messages import Message

__all__ = ["constant", "fill"]

Rule = Callable[[Message, F32, np.random.Generator], None]


def constant(value: float) -> Message:
    """A FillerParameter that sets every weight to `value`."""
    return messages.FillerParameter(type="constant", value=value)


def fill(param: Message, out: F32, rng: np.random.Generator) -> None:
    """Fill `out` (C-contiguous) by a FillerParameter.

    Raises ParameterError for an unknown type, parameters out of range, a shape the rule cannot
    fill, `sparse` with another type than gaussian, or no weights at all.
    """
    rule = _RULES.get(param.type)
    if rule is None:
        raise ParameterError(
            unknown_name("filler", param.type, list(_RULES)), fix="give one of these"
        )
    if out.size == 0:
        raise ParameterError(
            f"filler {param.type!r} has no weights to fill: shape {out.shape}",
            fix="feed a bottom with values in it",
        )
    if param.sparse != -1 and param.type != "gaussian":
        raise ParameterError(
            f"sparse is {param.sparse}, but a filler of type {param.type!r} cannot be sparse",
            fix='use type: "gaussian", or remove sparse',
        )
    rule(param, out, rng)


def _uniform_between(low: float, high: float, out: F32, rng: np.random.Generator) -> None:
    rng.random(dtype=np.float32, out=out)
    out *= np.float32(high - low)
    out += np.float32(low)


def _gaussian_around(mean: float, std: float, out: F32, rng: np.random.Generator) -> None:
    rng.standard_normal(dtype=np.float32, out=out)
    out *= np.float32(std)
    out += np.float32(mean)


def _fans(param: Message, out: F32) -> float:
    """fan_in, fan_out or their mean, as variance_norm says."""
    fan_in = out.size / (out.shape[0] if out.ndim else 1)
    fan_out = out.size / out.shape[1] if out.ndim > 1 else float(out.size)
    kinds = messages.FillerParameter
    choice = {kinds.FAN_OUT: fan_out, kinds.AVERAGE: (fan_in + fan_out) / 2}
    return choice.get(param.variance_norm, fan_in)


def _constant(param: Message, out: F32, rng: np.random.Generator) -> None:
    out.fill(param.value)


def _uniform(param: Message, out: F32, rng: np.random.Generator) -> None:
    if param.min > param.max:
        raise ParameterError(
            f"uniform filler: min {param.min:g} is above max {param.max:g}",
            fix="exchange min and max",
        )
    _uniform_between(param.min, param.max, out, rng)


def _gaussian(param: Message, out: F32, rng: np.random.Generator) -> None:
    if not param.std > 0:
        raise ParameterError(
            f"gaussian filler: std {param.std:g} must be above 0",
            fix='use type: "constant" for equal weights',
        )
    if param.sparse < -1:
        raise ParameterError(
            f"gaussian filler: sparse {param.sparse} must not be negative", fix="give 0 or more"
        )
    _gaussian_around(param.mean, param.std, out, rng)
    if param.sparse >= 0:
        kept = param.sparse / (out.shape[0] if out.ndim else 1)
        out *= rng.random(out.shape, dtype=np.float32) < kept


def _positive_unitball(param: Message, out: F32, rng: np.random.Generator) -> None:
    rng.random(dtype=np.float32, out=out)
    rows = out.reshape(out.shape[0] if out.ndim else 1, -1)
    rows /= rows.sum(axis=1, keepdims=True)


def _xavier(param: Message, out: F32, rng: np.random.Generator) -> None:
    limit = math.sqrt(3 / _fans(param, out))
    _uniform_between(-limit, limit, out, rng)


def _msra(param: Message, out: F32, rng: np.random.Generator) -> None:
    _gaussian_around(0, math.sqrt(2 / _fans(param, out)), out, rng)


def _bilinear(param: Message, out: F32, rng: np.random.Generator) -> None:
    if out.ndim != 4 or out.shape[2] != out.shape[3]:
        raise ParameterError(
            f"bilinear filler needs weights of four axes and a square kernel, got {out.shape}",
            fix="use it in a (de)convolution with a square kernel",
        )
    size = out.shape[3]
    factor = math.ceil(size / 2)
    centre = (size - 1) / (2 * factor)
    line = 1 - np.abs(np.arange(size) / factor - centre)
    out[...] = np.outer(line, line)


_RULES: dict[str, Rule] = {
    "bilinear": _bilinear,
    "constant": _constant,
    "gaussian": _gaussian,
    "msra": _msra,
    "positive_unitball": _positive_unitball,
    "uniform": _uniform,
    "xavier": _xavier,
}
