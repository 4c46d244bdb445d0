"""Operators that take a number at a time, as walks over memory: formulas, operand by operand.

All arrays are seen as (outer, channels, inner). A Pass streams some of them through the LDM, where
a formula is applied; results go to memory or are summed for each channel. A Finish is a formula on
the channels' vectors, between or behind passes. Formulas read as the operators' definitions do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from swcaffe.arrays import Shape
from swcaffe.ir.vector import (
    Value,
    VectorCode,
    expm1,
    maximum,
    minimum,
    sqrt,
    tanh,
    trace,
    where_less,
    where_positive,
)
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.base import Operator
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.eltwise import Dropout, EltwiseProduct, EltwiseSum
from swcaffe.operators.prelu import PReluBackwardData, PReluBackwardWeights, PReluForward
from swcaffe.operators.update import (
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamUpdate,
    NesterovUpdate,
    RmsPropUpdate,
    SgdUpdate,
    Update,
)

__all__ = ["PASSES", "Finish", "Pass", "Walk"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk over memory.

    reads    operands streamed: the first arguments of the code
    vectors  channels' vectors, or numbers: the arguments behind
    writes   operands that take the results; or
    sums     vectors to which the results are added, channel by channel
    """

    reads: tuple[str, ...]
    code: VectorCode
    vectors: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """Vectors made from vectors."""

    reads: tuple[str, ...]
    code: VectorCode
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """What an operator does, pass by pass, on arrays (outer, channels, inner).

    Operands of `channels` elements are vectors. `hyper` holds numbers, named hyper0, hyper1, …
    """

    shape: Shape
    parts: tuple[Pass | Finish, ...]

    @property
    def vectors(self) -> tuple[str, ...]:
        """Names of all vectors, in order of their first use; numbers are not among them."""
        names: dict[str, None] = {}
        for part in self.parts:
            if isinstance(part, Finish):
                names.update(dict.fromkeys((*part.reads, *part.writes)))
            else:
                names.update(dict.fromkeys((*part.vectors, *part.sums)))
        return tuple(name for name in names if not name.startswith("hyper"))

    @property
    def has_sums(self) -> bool:
        """Whether channels are summed: each must then belong to one CPE."""
        return any(isinstance(part, Pass) and part.sums for part in self.parts)


Formula: TypeAlias = Callable[..., Value | tuple[Value, ...]]


def _flat(count: int, reads: tuple[str, ...], formula: Formula, *writes: str) -> Walk:
    """One pass over arrays without channels."""
    return Walk((count, 1, 1), (Pass(reads, trace(len(reads), formula), writes=writes),))


def _activation(op: ActivationForward) -> Walk:
    a = op.alpha
    formulas: dict[str, Formula] = {
        "relu": (lambda x: maximum(x, 0.0) + a * minimum(x, 0.0))
        if a
        else lambda x: maximum(x, 0.0),
        "sigmoid": lambda x: 0.5 * tanh(0.5 * x) + 0.5,
        "tanh": lambda x: tanh(x),
        "elu": lambda x: where_positive(x, x, a * expm1(minimum(x, 0.0))),
    }
    return _flat(op.count, ("src",), formulas[op.kind], "dst")


def _activation_gradient(op: ActivationBackward) -> Walk:
    """Only those operands are streamed that the formula needs."""
    a = op.alpha
    formulas: dict[str, tuple[tuple[str, ...], Formula]] = {
        "relu": (("src", "diff_dst"), lambda x, dy: dy * where_positive(x, 1.0, a)),
        "sigmoid": (("dst", "diff_dst"), lambda y, dy: dy * y * (1.0 - y)),
        "tanh": (("dst", "diff_dst"), lambda y, dy: dy * (1.0 - y * y)),
        "elu": (
            ("src", "dst", "diff_dst"),
            lambda x, y, dy: dy * where_positive(x, 1.0, y + a),
        ),
    }
    reads, formula = formulas[op.kind]
    return _flat(op.count, reads, formula, "diff_src")


def _prelu(op: PReluForward) -> Walk:
    code = trace(2, lambda x, slope: maximum(x, 0.0) + slope * minimum(x, 0.0))
    return Walk(op.shape, (Pass(("src",), code, ("slope",), ("dst",)),))


def _prelu_gradient(op: PReluBackwardData) -> Walk:
    code = trace(3, lambda x, dy, slope: dy * where_positive(x, 1.0, slope))
    return Walk(op.shape, (Pass(("src", "diff_dst"), code, ("slope",), ("diff_src",)),))


def _prelu_slopes(op: PReluBackwardWeights) -> Walk:
    code = trace(2, lambda x, dy: minimum(x, 0.0) * dy)
    return Walk(op.shape, (Pass(("src", "diff_dst"), code, sums=("diff_slope",)),))


def _sum(op: EltwiseSum) -> Walk:
    def formula(*x: Value) -> Value:
        terms = [v if c == 1 else c * v for c, v in zip(op.coefficients, x, strict=True)]
        return sum(terms[1:], terms[0])

    return _flat(op.count, tuple(f"src{i}" for i in range(op.terms)), formula, "dst")


def _product(op: EltwiseProduct) -> Walk:
    def formula(first: Value, *others: Value) -> Value:
        for other in others:
            first = first * other
        return first

    return _flat(op.count, tuple(f"src{i}" for i in range(op.arity)), formula, "dst")


def _dropout(op: Dropout) -> Walk:
    scale = 1.0 / (1.0 - op.ratio)
    return _flat(
        op.count,
        ("src", "noise"),
        lambda x, noise: where_less(noise, op.ratio, 0.0, scale * x),
        "dst",
    )


def _affine(op: AffineForward) -> Walk:
    vectors = ("scale",) * op.has_scale + ("bias",) * op.has_bias

    def formula(x: Value, *v: Value) -> Value:
        x = x * v[0] if op.has_scale else x
        return x + v[-1] if op.has_bias else x

    code = trace(1 + len(vectors), formula)
    return Walk(op.shape, (Pass(("src",), code, vectors, ("dst",)),))


def _affine_gradients(op: AffineBackwardWeights) -> Walk:
    def formula(*x: Value) -> tuple[Value, ...]:
        return (*((x[0] * x[1],) if op.has_scale else ()), *((x[-1],) if op.has_bias else ()))

    reads = ("src",) * op.has_scale + ("diff_dst",)
    sums = ("diff_scale",) * op.has_scale + ("diff_bias",) * op.has_bias
    return Walk(op.shape, (Pass(reads, trace(len(reads), formula), sums=sums),))


def _normalisation(op: BatchNormForward) -> Walk:
    """Mean, then the squares around it, then the values: three walks over the channel."""
    share = 1.0 / (op.outer * op.inner)
    mean = trace(1, lambda total: share * total)
    deviation = trace(1, lambda variance: sqrt(variance + op.eps))
    centred = trace(2, lambda x, mean: (x - mean) * (x - mean))
    scaled = trace(3, lambda x, mean, s: (x - mean) / s)
    statistics = (
        Pass(("src",), trace(1, lambda x: x), sums=("total",)),
        Finish(("total",), mean, ("mean",)),
        Pass(("src",), centred, ("mean",), sums=("squares",)),
        Finish(("squares",), mean, ("variance",)),
    )
    rest = (
        Finish(("variance",), deviation, ("deviation",)),
        Pass(("src",), scaled, ("mean", "deviation"), ("dst",)),
    )
    return Walk(op.shape, (*statistics, *rest) if op.of_batch else rest)


def _normalisation_gradient(op: BatchNormBackward) -> Walk:
    share = 1.0 / (op.outer * op.inner)
    deviation = Finish(
        ("variance",), trace(1, lambda variance: sqrt(variance + op.eps)), ("deviation",)
    )
    if not op.of_batch:
        code = trace(2, lambda dy, s: dy / s)
        return Walk(op.shape, (deviation, Pass(("diff_dst",), code, ("deviation",), ("diff_src",))))
    sums = trace(4, lambda x, dy, mean, s: (dy, dy * ((x - mean) / s)))
    means = trace(2, lambda a, b: (share * a, share * b))
    combined = trace(6, lambda x, dy, mean, s, a, b: (dy - (a + (x - mean) / s * b)) / s)
    reads = ("src", "diff_dst")
    return Walk(
        op.shape,
        (
            deviation,
            Pass(reads, sums, ("mean", "deviation"), sums=("total", "along")),
            Finish(("total", "along"), means, ("common", "slope")),
            Pass(reads, combined, ("mean", "deviation", "common", "slope"), ("diff_src",)),
        ),
    )


def _update(op: Update) -> Walk:
    """weights - step, and the histories, by the rule that the operator's class has."""
    rule, count = RULES[type(op)], 2 + len(op.histories)

    def formula(*x: Value) -> tuple[Value, ...]:
        (weights, diff), (rate, decay, scale) = x[:2], x[count:]
        sign = where_positive(weights, 1.0, where_less(weights, 0.0, -1.0, 0.0))
        g = scale * diff + decay * (weights if op.regularization == "L2" else sign)
        step, *histories = rule(op, g, rate, *x[2:count])
        return (weights - step, *histories)

    hyper = ("hyper0", "hyper1", "hyper2")
    reads = ("weights", "diff", *op.histories)
    code = trace(count + len(hyper), formula)
    return Walk((op.count, 1, 1), (Pass(reads, code, hyper, ("weights", *op.histories)),))


def _sgd(op: SgdUpdate, g: Value, rate: Value, h: Value) -> tuple[Value, ...]:
    h = op.momentum * h + rate * g
    return h, h


def _nesterov(op: NesterovUpdate, g: Value, rate: Value, old: Value) -> tuple[Value, ...]:
    h = op.momentum * old + rate * g
    return (1.0 + op.momentum) * h - op.momentum * old, h


def _adagrad(op: AdaGradUpdate, g: Value, rate: Value, h: Value) -> tuple[Value, ...]:
    h = h + g * g
    return rate * g / (sqrt(h) + op.delta), h


def _rmsprop(op: RmsPropUpdate, g: Value, rate: Value, h: Value) -> tuple[Value, ...]:
    h = op.rms_decay * h + (1.0 - op.rms_decay) * (g * g)
    return rate * g / (sqrt(h) + op.delta), h


def _adadelta(op: AdaDeltaUpdate, g: Value, rate: Value, a: Value, b: Value) -> tuple[Value, ...]:
    rest = 1.0 - op.momentum
    a = op.momentum * a + rest * (g * g)
    u = g * sqrt((b + op.delta) / (a + op.delta))
    return rate * u, a, op.momentum * b + rest * (u * u)


def _adam(op: AdamUpdate, g: Value, rate: Value, m: Value, v: Value) -> tuple[Value, ...]:
    m = op.beta1 * m + (1.0 - op.beta1) * g
    v = op.beta2 * v + (1.0 - op.beta2) * (g * g)
    return rate * m / (sqrt(v) + op.delta), m, v


RULES: dict[type[Update], Callable[..., tuple[Value, ...]]] = {
    SgdUpdate: _sgd,
    NesterovUpdate: _nesterov,
    AdaGradUpdate: _adagrad,
    RmsPropUpdate: _rmsprop,
    AdaDeltaUpdate: _adadelta,
    AdamUpdate: _adam,
}

PASSES: dict[type[Operator], Callable[..., Walk]] = {
    ActivationForward: _activation,
    ActivationBackward: _activation_gradient,
    PReluForward: _prelu,
    PReluBackwardData: _prelu_gradient,
    PReluBackwardWeights: _prelu_slopes,
    EltwiseSum: _sum,
    EltwiseProduct: _product,
    Dropout: _dropout,
    AffineForward: _affine,
    AffineBackwardWeights: _affine_gradients,
    BatchNormForward: _normalisation,
    BatchNormBackward: _normalisation_gradient,
    **dict.fromkeys(RULES, _update),
}
"""Operator class -> its walk."""
