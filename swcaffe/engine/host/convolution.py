"""Candidates for convolutions and their gradients, of one to three spatial axes."""

from __future__ import annotations

import math
from typing import Any

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.correlate import correlate, correlate_values, pack_job, pack_words
from swcaffe.engine.host.depthwise import depthwise, depthwise_values
from swcaffe.engine.host.images import LAYOUT, Axes
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace
from swcaffe.engine.host.pointwise import POINTWISE, pointwise_values
from swcaffe.engine.host.scatter import scatter, scatter_values
from swcaffe.engine.host.weight_gradient import LONG, weight_gradient_values
from swcaffe.kernels import COLS
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)

__all__ = [
    "Correlation",
    "Depthwise",
    "PointwiseGradient",
    "ReversedCorrelation",
    "Scattering",
    "WeightGradient",
]

FULL_COST = 1.3
"""Products of the reversed correlation to those of the scattering up to which it is faster."""


def _geometry(op: Operator) -> ConvGeometry:
    assert isinstance(op, ConvForward | ConvBackwardData | ConvBackwardWeights), op
    return op.geometry


def _turned(g: ConvGeometry) -> ConvGeometry:
    """The geometry of the gradient to the data, for strides of one."""
    pad = tuple(e - 1 - p for e, p in zip(g.extent, g.pad, strict=True))
    turned = ConvGeometry(
        g.n, g.oc, g.ic, g.out_size, g.kernel, g.stride, pad, g.dilation, g.groups
    )
    assert turned.out_size == g.in_size, (turned, g)
    return turned


class _Convolution:
    """Base: plans run on the workspace's team."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """One to three spatial axes and at least one element."""
        g = _geometry(op)
        if not 1 <= len(g.kernel) <= 3:
            return Refusal(f"{len(g.kernel)} spatial axes, not 1 to 3")
        if math.prod(g.src) * math.prod(g.dst) == 0:
            return Refusal("there is nothing to compute")
        return None


class Depthwise(_Convolution):
    """Forward, or the gradient to the data for strides of one, where each group is one plane."""

    name = "weighted taps"

    def supports(self, op: Operator) -> Refusal | None:
        """One channel and one output a group."""
        g = _geometry(op)
        if not g.ic == g.oc == g.groups:
            return Refusal(f"{g.ic} to {g.oc} channels in {g.groups} groups are no single planes")
        if isinstance(op, ConvBackwardData) and max(g.stride) > 1:
            return Refusal(f"stride {g.stride} leaves gaps in the output")
        return super().supports(op)

    def plan(self, op: Operator) -> Plan:
        """One job."""
        ahead = isinstance(op, ConvForward)
        axes = Axes(_geometry(op) if ahead else _turned(_geometry(op)))
        has_bias = isinstance(op, ConvForward) and op.has_bias
        values, count, scratch = depthwise_values(axes, has_bias)
        values["w_flip"] = int(not ahead)
        names = () if ahead else ("weights", "src", "dst")
        return _plan(op, self, values, [Job(depthwise, count)], scratch, names)


class Correlation(_Convolution):
    """Forward."""

    name = "implicit product"

    def plan(self, op: Operator) -> Plan:
        """Pack the weights, then multiply."""
        assert isinstance(op, ConvForward), op
        axes = Axes(op.geometry)
        values, count, scratch = correlate_values(axes, op.has_bias)
        window = axes.channels * axes.taps
        values |= pack_words(
            axes.outputs, axes.outputs, window + op.has_bias, axes.outputs * window
        )
        values |= {"w_row": window, "w_channel": axes.taps, "w_taps": axes.taps}
        return _plan(op, self, values, [pack_job(values), Job(correlate, count)], scratch)


class ReversedCorrelation(_Convolution):
    """Gradient to the data as a correlation of diff_dst with the weights turned round."""

    name = "reversed implicit product"

    def supports(self, op: Operator) -> Refusal | None:
        """Strides of one and not many more products than the definition has."""
        g = _geometry(op)
        if max(g.stride) > 1:
            return Refusal(f"stride {g.stride} leaves gaps in the output")
        excess = math.prod(g.in_size) / max(1, math.prod(g.out_size))
        if excess > FULL_COST:
            return Refusal(f"{excess:.2f} times the products of the definition")
        return super().supports(op)

    def plan(self, op: Operator) -> Plan:
        """The forward plan of the geometry turned round."""
        axes = Axes(_turned(_geometry(op)))
        values, count, scratch = correlate_values(axes, False)
        depth = axes.channels * axes.taps
        values |= pack_words(axes.outputs, axes.outputs, depth, axes.outputs * depth)
        values |= {"w_row": axes.taps, "w_channel": axes.outputs * axes.taps}
        values |= {"w_flip": 1, "w_taps": axes.taps}
        jobs = [pack_job(values), Job(correlate, count)]
        return _plan(op, self, values, jobs, scratch, ("weights", "src", "dst"))


class Scattering(_Convolution):
    """Gradient to the data for every stride."""

    name = "product and scatter"

    def plan(self, op: Operator) -> Plan:
        """Pack the weights, then multiply and scatter."""
        values, count, scratch = scatter_values(Axes(_geometry(op)))
        jobs = [pack_job(values), Job(scatter, count)]
        return _plan(op, self, values, jobs, scratch, ("weights", "dst", "src"))


class PointwiseGradient(_Convolution):
    """Gradients to weights and bias of kernels with one tap, for few positions an image."""

    name = "product over the batch"

    def supports(self, op: Operator) -> Refusal | None:
        """One tap, no padding, and images too small for products of their own."""
        g = _geometry(op)
        if {*g.kernel} != {1} or any(g.pad):
            return Refusal(f"kernel {g.kernel} with padding {g.pad} is not pointwise")
        if max(g.stride) == 1 and math.prod(g.out_size) >= LONG:
            return Refusal(f"{math.prod(g.out_size)} positions need no packing")
        if g.oc // g.groups < COLS or g.ic // g.groups < COLS:
            return Refusal(f"{g.ic} to {g.oc} channels in {g.groups} groups fill no panel")
        return super().supports(op)

    def plan(self, op: Operator) -> Plan:
        """Pack both sides, multiply."""
        assert isinstance(op, ConvBackwardWeights), op
        axes = Axes(op.geometry)
        values, jobs, scratch = pointwise_values(axes, op.has_bias, op.accumulate)
        names = ("src", "dst", *(o.name for o in op.outputs))
        return TaskPlan(
            op, self.name, self.workspace, jobs, POINTWISE, values, names=names, scratch=scratch
        )


class WeightGradient(_Convolution):
    """Gradients to weights and bias."""

    name = "dot products"

    def plan(self, op: Operator) -> Plan:
        """Partial sums, then their sum."""
        assert isinstance(op, ConvBackwardWeights), op
        axes = Axes(op.geometry)
        values, jobs, scratch = weight_gradient_values(axes, op.has_bias, op.accumulate)
        names = ("src", "dst", *(o.name for o in op.outputs))
        return _plan(op, self, values, jobs, scratch, names)


def _plan(
    op: Operator, candidate: Any, values: Any, jobs: Any, scratch: Any, names: Any = ()
) -> Plan:
    return TaskPlan(
        op, candidate.name, candidate.workspace, jobs, LAYOUT, values, names=names, scratch=scratch
    )
