"""Layout of the instruction rows that `flatten` writes and `kernels.run` reads.

A row: operation, PARAMETERS integers, three operand addresses, more of them in OPERANDS rows behind
it. An address: array number, constant, a factor for each loop variable, and for double buffers
modulus, slot size, and a second affine expression, the slot. Loops: parameters are depth, extent,
parallel, first row of the body.
"""

from __future__ import annotations

from swcaffe.ir.stmt import MAX_PARAMS

__all__ = [
    "ADD",
    "ADDRESS",
    "ADDRESS_SIZE",
    "AVE_POOL",
    "AVE_POOL_GRADIENT",
    "BROADCAST",
    "CHANNEL_SUM",
    "COL2IM",
    "COPY",
    "DEPTH",
    "END",
    "FILL",
    "GEMM",
    "IM2COL",
    "LDM",
    "LOOP",
    "MAP",
    "MAX_POOL",
    "MAX_POOL_GRADIENT",
    "OPERANDS",
    "OPERANDS_PER_ROW",
    "PANEL_GEMM",
    "PANEL_IM2COL",
    "PRIVATE",
    "ROW_SIZE",
    "ROW_SUM",
    "SHARED",
]

(
    LOOP,
    END,
    COPY,
    FILL,
    GEMM,
    IM2COL,
    COL2IM,
    BROADCAST,
    ADD,
    ROW_SUM,
    PANEL_GEMM,
    PANEL_IM2COL,
    MAP,
    CHANNEL_SUM,
    OPERANDS,
    MAX_POOL,
    MAX_POOL_GRADIENT,
    AVE_POOL,
    AVE_POOL_GRADIENT,
) = range(19)

DEPTH = 8
"""Loops that may be nested."""
ADDRESS = 21
"""Column of the first address: the operation and 20 parameters stand before it."""
ADDRESS_SIZE = 2 + DEPTH + 3 + DEPTH
OPERANDS_PER_ROW = 3
"""Addresses in a row; further ones stand in OPERANDS rows behind it."""
ROW_SIZE = ADDRESS + OPERANDS_PER_ROW * ADDRESS_SIZE

SHARED, PRIVATE, LDM = MAX_PARAMS, MAX_PARAMS + 1, MAX_PARAMS + 2
"""Numbers of the arrays behind the parameters: scratch, and the LDM."""
