"""`caffe.get_solver` and the solver classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.errors import ParameterError
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import read_solver
from swcaffe.pycaffe.mode import current_engine
from swcaffe.pycaffe.net import Net
from swcaffe.solver.solver import Solver

__all__ = [
    "AdaDeltaSolver",
    "AdaGradSolver",
    "AdamSolver",
    "NesterovSolver",
    "PySolver",
    "RMSPropSolver",
    "SGDSolver",
    "get_solver",
]


class PySolver:
    """A solver from a prototxt file; its nets are built at once.

    net, test_nets   pycaffe nets      iter   updates done so far
    param            the SolverParameter
    """

    type = ""
    """Subclasses name an update rule, which must be the file's or be missing there."""

    def __init__(self, solver_file: str | Path) -> None:
        """Build the solver. Raises ParameterError if the file names another type than the class."""
        parsed = read_solver(solver_file)
        param = parsed.message
        if self.type and param.HasField("type") and param.type != self.type:
            raise ParameterError(
                f'{solver_file} has type: "{param.type}", asked for {self.type}Solver',
                fix="use caffe.get_solver",
            )
        if self.type:
            param.type = self.type
        cpu = param.HasField("solver_mode") and param.solver_mode == messages.SolverParameter.CPU
        engine = current_engine("host" if cpu else "sw26010")
        base = Path(solver_file).parent
        self._solver = Solver(param, engine, base=base, places=parsed.source_map)
        self.net = Net.of(self._solver.net)
        self.test_nets = [Net.of(net) for net in self._solver.test_nets]

    @property
    def iter(self) -> int:
        """Updates done so far."""
        return self._solver.iter

    @property
    def lr(self) -> float:
        """Learning rate of the coming iteration."""
        return self._solver.lr

    @property
    def param(self) -> Message:
        """The SolverParameter; base_lr, max_iter and display may be changed."""
        return self._solver.param

    def solve(self, resume_file: str | Path | None = None) -> None:
        """Train to max_iter, from a solverstate if given."""
        self._solver.solve(resume_file)

    def step(self, iterations: int) -> None:
        """Run a number of iterations."""
        self._solver.step(iterations)

    def restore(self, state_file: str | Path) -> None:
        """Continue from a solverstate."""
        self._solver.restore(state_file)

    def snapshot(self) -> None:
        """Write weights and state."""
        self._solver.snapshot()

    def apply_update(self) -> None:
        """One update from the present gradients; counts an iteration."""
        self._solver.apply_update()

    def share_weights(self, net: Net) -> None:
        """Let `net` use the weights of the training net."""
        net.share_with(self.net)

    def add_callback(
        self, on_start: Callable[[], None], on_gradients_ready: Callable[[], None]
    ) -> None:
        """Call the first before each forward pass, the second before each update."""
        self._solver.on_start.append(on_start)
        self._solver.on_gradients_ready.append(on_gradients_ready)


class SGDSolver(PySolver):
    """Stochastic gradient descent with momentum."""

    type = "SGD"


class NesterovSolver(PySolver):
    """Nesterov's accelerated gradient."""

    type = "Nesterov"


class AdaGradSolver(PySolver):
    """AdaGrad."""

    type = "AdaGrad"


class RMSPropSolver(PySolver):
    """RMSProp."""

    type = "RMSProp"


class AdaDeltaSolver(PySolver):
    """AdaDelta."""

    type = "AdaDelta"


class AdamSolver(PySolver):
    """Adam."""

    type = "Adam"


_CLASSES = {
    kind.type: kind
    for kind in (
        SGDSolver,
        NesterovSolver,
        AdaGradSolver,
        RMSPropSolver,
        AdaDeltaSolver,
        AdamSolver,
    )
}


def get_solver(solver_file: str | Path) -> PySolver:
    """The solver of a file, of the class that its type names."""
    param = read_solver(solver_file).message
    return _CLASSES.get(param.type, PySolver)(solver_file)
