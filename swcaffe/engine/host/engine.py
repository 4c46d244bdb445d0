"""The engine that computes on this computer's CPU."""

from __future__ import annotations

import os
from collections.abc import Callable

from swcaffe.engine.engine import Candidate, Candidates, Engine, Plan
from swcaffe.engine.host.activation import Activation
from swcaffe.engine.host.channels import ChannelWise
from swcaffe.engine.host.convolution import (
    Correlation,
    Depthwise,
    PointwiseGradient,
    ReversedCorrelation,
    Scattering,
    WeightGradient,
)
from swcaffe.engine.host.eltwise import Elementwise
from swcaffe.engine.host.embed import Embedding
from swcaffe.engine.host.gemm import DotProducts, PackedProduct
from swcaffe.engine.host.layout import Copies
from swcaffe.engine.host.losses import Accuracy, PairLosses
from swcaffe.engine.host.lrn import Normalisation
from swcaffe.engine.host.plans import TaskPlan, Workspace
from swcaffe.engine.host.pooling import Pooling
from swcaffe.engine.host.recurrent import Recurrence, Units
from swcaffe.engine.host.softmax import Softmax
from swcaffe.engine.host.stochastic_pooling import StochasticPooling
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
    embed,
    gemm,
    layout,
    loss,
    lrn,
    pooling,
    prelu,
    recurrent,
    softmax,
    stochastic_pooling,
    update,
)
from swcaffe.operators.base import Operator

__all__ = ["HostEngine", "create"]

CANDIDATES: dict[type[Operator], tuple[Callable[[Workspace], Candidate], ...]] = {
    gemm.Gemm: (DotProducts, PackedProduct),
    convolution.ConvForward: (Depthwise, Correlation),
    convolution.ConvBackwardData: (Depthwise, ReversedCorrelation, Scattering),
    convolution.ConvBackwardWeights: (PointwiseGradient, WeightGradient),
    pooling.MaxPoolForward: (Pooling,),
    pooling.MaxPoolBackward: (Pooling,),
    pooling.AvePoolForward: (Pooling,),
    pooling.AvePoolBackward: (Pooling,),
    stochastic_pooling.StochasticPoolForward: (StochasticPooling,),
    activation.ActivationForward: (Activation,),
    activation.ActivationBackward: (Activation,),
    eltwise.EltwiseSum: (Elementwise,),
    eltwise.EltwiseProduct: (Elementwise,),
    eltwise.EltwiseMax: (Elementwise,),
    eltwise.EltwiseMaxBackward: (Elementwise,),
    eltwise.Dropout: (Elementwise,),
    embed.EmbedForward: (Embedding,),
    embed.EmbedBackward: (Embedding,),
    layout.Concat: (Copies,),
    layout.Slice: (Copies,),
    loss.EuclideanLossForward: (PairLosses,),
    loss.SigmoidLossForward: (PairLosses,),
    loss.SigmoidLossBackward: (PairLosses,),
    loss.AccuracyCount: (Accuracy,),
    affine.AffineForward: (ChannelWise,),
    affine.AffineBackwardWeights: (ChannelWise,),
    prelu.PReluForward: (ChannelWise,),
    prelu.PReluBackwardData: (ChannelWise,),
    prelu.PReluBackwardWeights: (ChannelWise,),
    batch_norm.BatchNormForward: (ChannelWise,),
    batch_norm.BatchNormBackward: (ChannelWise,),
    lrn.LrnForward: (Normalisation,),
    lrn.LrnBackward: (Normalisation,),
    recurrent.LstmForward: (Recurrence,),
    recurrent.LstmBackward: (Recurrence,),
    recurrent.LstmUnitForward: (Units,),
    recurrent.LstmUnitBackward: (Units,),
    recurrent.RnnForward: (Recurrence,),
    recurrent.RnnBackward: (Recurrence,),
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
