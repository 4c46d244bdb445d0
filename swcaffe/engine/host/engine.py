"""The engine that computes on this computer's CPU."""

from __future__ import annotations

import os
from collections.abc import Callable

from swcaffe.engine.engine import Candidate, Candidates, Engine, Plan
from swcaffe.engine.host.activation import Activation
from swcaffe.engine.host.channels import ChannelWise
from swcaffe.engine.host.convolution import (
    Correlation,
    ReversedCorrelation,
    Scattering,
    WeightGradient,
)
from swcaffe.engine.host.eltwise import Elementwise
from swcaffe.engine.host.gemm import DotProducts, PackedProduct
from swcaffe.engine.host.lrn import Normalisation
from swcaffe.engine.host.plans import TaskPlan, Workspace
from swcaffe.engine.host.pooling import Pooling
from swcaffe.engine.host.softmax import Softmax
from swcaffe.engine.host.team import Team
from swcaffe.engine.host.update import UpdateRule
from swcaffe.errors import EngineError
from swcaffe.kernels import WIDTH
from swcaffe.operators import (
    activation,
    affine,
    batch_norm,
    convolution,
    eltwise,
    gemm,
    lrn,
    pooling,
    softmax,
    update,
)
from swcaffe.operators.base import Operator

__all__ = ["HostEngine", "create"]

CANDIDATES: dict[type[Operator], tuple[Callable[[Workspace], Candidate], ...]] = {
    gemm.Gemm: (DotProducts, PackedProduct),
    convolution.ConvForward: (Correlation,),
    convolution.ConvBackwardData: (ReversedCorrelation, Scattering),
    convolution.ConvBackwardWeights: (WeightGradient,),
    pooling.MaxPoolForward: (Pooling,),
    pooling.MaxPoolBackward: (Pooling,),
    pooling.AvePoolForward: (Pooling,),
    pooling.AvePoolBackward: (Pooling,),
    activation.ActivationForward: (Activation,),
    activation.ActivationBackward: (Activation,),
    eltwise.EltwiseSum: (Elementwise,),
    eltwise.EltwiseProduct: (Elementwise,),
    eltwise.Dropout: (Elementwise,),
    affine.AffineForward: (ChannelWise,),
    affine.AffineBackwardWeights: (ChannelWise,),
    batch_norm.BatchNormForward: (ChannelWise,),
    batch_norm.BatchNormBackward: (ChannelWise,),
    lrn.LrnForward: (Normalisation,),
    lrn.LrnBackward: (Normalisation,),
    softmax.SoftmaxForward: (Softmax,),
    softmax.SoftmaxBackward: (Softmax,),
    softmax.SoftmaxLossForward: (Softmax,),
    softmax.SoftmaxLossBackward: (Softmax,),
    update.SgdUpdate: (UpdateRule,),
    update.NesterovUpdate: (UpdateRule,),
    update.AdaGradUpdate: (UpdateRule,),
    update.RmsPropUpdate: (UpdateRule,),
    update.AdaDeltaUpdate: (UpdateRule,),
    update.AdamUpdate: (UpdateRule,),
}
"""Best first; the operator's own definition follows."""


class HostEngine(Engine):
    """Plans operators for the CPU; `threads` work on each."""

    name = "host"

    def __init__(self, threads: int) -> None:
        """At least one thread."""
        super().__init__()
        self.threads = threads
        self.candidates = Candidates()
        workspace = Workspace(Team(threads))
        for op_class, makers in CANDIDATES.items():
            self.candidates.add(op_class, *(make(workspace) for make in makers))

    def make_plan(self, op: Operator) -> Plan:
        """The plan of the first candidate that does not refuse."""
        candidate, refusals = self.candidates.choose(op)
        plan = candidate.plan(op)
        if isinstance(plan, TaskPlan):
            plan.refusals = refusals
        return plan

    def describe(self) -> str:
        """Engine, arithmetic, vector width and threads."""
        return f"host: float32, vectors of {WIDTH}, {self.threads} threads"


def create(threads: int = 0) -> HostEngine:
    """A host engine; 0 threads means one for each CPU this process may use."""
    if threads < 0:
        raise EngineError(f"threads is {threads}", fix="give 0 (all CPUs) or a positive number")
    return HostEngine(threads or _cpus())


def _cpus() -> int:
    """CPUs this process may use; where the system does not say, all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
