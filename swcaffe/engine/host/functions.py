"""Single-precision exponential and hyperbolic tangent that LLVM can vectorise.

Reductions and minimax polynomials of Moshier's Cephes library (expf, tanhf), accurate to about one
unit in the last place; NaN stays NaN, infinities go to the limits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from swcaffe.engine.host.native import compiled

__all__ = ["exp", "tanh"]

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
F = np.float32
LOWEST, HIGHEST = F(-104), F(89)  # arguments whose exponentials are 0 and infinity
LOG2_E = F(1.44269504088896341)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)
E5, E4, E3 = F(1.9875691500e-4), F(1.3981999507e-3), F(8.3334519073e-3)
E2, E1, E0 = F(4.1665795894e-2), F(1.6666665459e-1), F(5.0000001201e-1)
T4, T3, T2 = F(-5.70498872745e-3), F(2.06390887954e-2), F(-5.37397155531e-2)
T1, T0 = F(1.33314422036e-1), F(-3.33332819422e-1)
NEAR = F(0.625)
ZERO, HALF, ONE, TWO = F(0), F(0.5), F(1), F(2)


@_intrinsic  # type: ignore[untyped-decorator]
def _power_of_two(typing: Any, exponent: Any) -> Any:
    """The float32 number 2^exponent, for exponents of normal numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        biased = builder.add(args[0], ir.IntType(32)(127))
        return builder.bitcast(builder.shl(biased, ir.IntType(32)(23)), ir.FloatType())

    return types.float32(types.int32), generate


@compiled
def exp(x: Any) -> Any:
    """e^x; small ones are subnormal numbers, then 0."""
    x = LOWEST if x < LOWEST else x
    x = HIGHEST if x > HIGHEST else x
    n = F(math.floor(x * LOG2_E + HALF)) if x == x else ZERO
    # 2^n in two steps, as n may be 128 or -150
    low = np.int32(n) >> np.int32(1)
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = ((((E5 * r + E4) * r + E3) * r + E2) * r + E1) * r + E0
    value = p * r * r + r + ONE
    return value * _power_of_two(low) * _power_of_two(np.int32(n) - low)


@compiled
def tanh(x: Any) -> Any:
    """Hyperbolic tangent: a polynomial near 0, 1 - 2 / (e^2|x| + 1) elsewhere."""
    size = abs(x)
    far = ONE - TWO / (exp(TWO * size) + ONE)
    z = x * x
    near = ((((T4 * z + T3) * z + T2) * z + T1) * z + T0) * z * x + x
    return near if size < NEAR else (far if x > ZERO else -far)
