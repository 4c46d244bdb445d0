"""General matrix multiplication, row-major, with the words of BLAS."""

from __future__ import annotations

from dataclasses import dataclass

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["Gemm"]


@dataclass(frozen=True, slots=True)
class Gemm(Operator):
    """c = op(a) @ op(b) [+ bias], c (m, n); op(x) is x or, with trans_x, x transposed.

    a     (m, k), or (k, m) with trans_a
    b     (k, n), or (n, k) with trans_b
    bias  (n), added to each row
    accumulate adds to c instead (beta = 1); it excludes has_bias.
    """

    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = False
    has_bias: bool = False

    def __post_init__(self) -> None:
        """A sum that accumulates would add its bias again with every call."""
        assert not (self.accumulate and self.has_bias), "accumulate excludes has_bias"

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """a, b and, with has_bias, bias."""
        a = Operand("a", (self.k, self.m) if self.trans_a else (self.m, self.k))
        b = Operand("b", (self.n, self.k) if self.trans_b else (self.k, self.n))
        return (a, b, Operand("bias", (self.n,))) if self.has_bias else (a, b)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """c."""
        return (Operand("c", (self.m, self.n), accumulate=self.accumulate),)

    @property
    def flops(self) -> int:
        """2 m n k, and m n for a bias."""
        return 2 * self.m * self.n * self.k + (self.m * self.n if self.has_bias else 0)

    @property
    def terms(self) -> int:
        """k products, and the bias."""
        return self.k + 1

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """numpy's matrix product."""
        shapes = [operand.shape for operand in self.inputs]
        a, b = inputs[0].reshape(shapes[0]), inputs[1].reshape(shapes[1])
        c = (a.T if self.trans_a else a) @ (b.T if self.trans_b else b)
        return (c + inputs[2] if self.has_bias else c,)
