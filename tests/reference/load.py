"""Read the arrays recorded from the reference Caffe (numpy only; the reference is not needed).

A case is one layer with its inputs, its parameters and what BVLC Caffe 1.0 computed on its CPU; a
training is a net and a solver with the losses and weights it went through.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .digest import Digest

__all__ = ["Case", "Step", "Training", "cases", "interop", "training", "trainings", "types"]

F32 = npt.NDArray[np.float32]
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One forward pass and, if the case has one, one backward pass.

    bottoms         inputs, as they were before the pass (in-place layers overwrite them)
    tops            outputs
    top_diffs       gradients given to the layer; for losses what Caffe put there (the loss weight)
    bottom_diffs    gradients of the bottoms; None where none was asked for or Caffe wrote none
    param_diffs     gradients of the parameters. They ACCUMULATE over the steps of a case, from 0.
    params_after    parameters after the pass; the same as before except in BatchNorm

    Without a backward pass the three lists of gradients are empty.
    """

    bottoms: list[F32]
    tops: list[F32]
    top_diffs: list[F32]
    bottom_diffs: list[F32 | None]
    param_diffs: list[F32]
    params_after: list[F32]


@dataclass(frozen=True)
class Case:
    """One layer: its prototxt (bottoms b0, b1, ...), its first parameters and its passes.

    `extra` holds what feeds a layer without bottoms: "data" and "label" of MemoryData; one
    "<file number>/<dataset>" for each dataset of HDF5Data, whose prototxt says source: "SOURCE".
    Parameters are set to `params` before the first step; later steps go on from what is there.
    """

    type: str
    name: str
    prototxt: str
    phase: str
    params: list[F32]
    steps: list[Step]
    extra: dict[str, F32]
    backward: bool

    def __str__(self) -> str:
        """The identity used by pytest: type and name."""
        return f"{self.type}-{self.name}"


@dataclass(frozen=True)
class Training:
    """One training: nets/<name>.prototxt, weights of digest.start, pictures.write_digits in order.

    losses          of every forward pass (iter_size of them an iteration)
    losses_spread   what rounding alone may have changed in them by then (make_training.py)
    digests         by iteration (1, 10, 50, 100), then by blob name "conv1/0"
    spreads         likewise: what rounding alone changes of the blob, |difference| / |blob|
    values          the same for whole blobs, where they were kept
    """

    name: str
    losses: F32
    losses_spread: F32
    digests: dict[int, dict[str, Digest]]
    spreads: dict[int, dict[str, float]]
    values: dict[int, dict[str, F32]]


def trainings() -> list[str]:
    """Names of all trainings recorded: <net>_<solver type>."""
    return sorted(path.stem for path in (HERE / "training").glob("*.npz"))


def training(name: str) -> Training:
    """One training by name; FileNotFoundError if it was not recorded."""
    with np.load(HERE / "training" / f"{name}.npz") as file:
        arrays = dict(file)
    found = Training(name, arrays.pop("losses"), arrays.pop("losses_spread"), {}, {}, {})
    for key in (key.removesuffix("/norm") for key in arrays if key.endswith("/norm")):
        iteration, blob = key.split("/", 1)
        at = int(iteration)
        norm, samples, projections = (
            arrays[f"{key}/{kind}"] for kind in ("norm", "samples", "projections")
        )
        found.digests.setdefault(at, {})[blob] = Digest(float(norm), samples, projections)
        found.spreads.setdefault(at, {})[blob] = float(arrays[f"{key}/spread"])
        if (values := arrays.get(f"{key}/values")) is not None:
            found.values.setdefault(at, {})[blob] = values
    return found


def interop() -> dict[str, dict[str, F32]]:
    """What the reference reads from the files of interop/, by file name, then by array.

    tiny.prototxt           "0/data", "0/label", "1/data", ...: two batches of its Data layer
    *_iter_5.caffemodel     "conv/0", ...; the same, bit for bit, for *.caffemodel.h5
    *_iter_5.solverstate    "0", "1", ...: history blobs; the same for *.solverstate.h5
    *_iter_8.caffemodel     no such file: what the reference makes of the state of iteration 5 in 3
                            iterations more, its data starting again at the first record
    """
    found: dict[str, dict[str, F32]] = {}
    with np.load(HERE / "interop" / "expected.npz") as file:
        for key, values in file.items():
            name, array = key.split("|")
            found.setdefault(name, {})[array] = values
    return found


def types() -> list[str]:
    """All layer types recorded."""
    return sorted(path.stem for path in (HERE / "layers").glob("*.npz"))


def cases(type: str) -> list[Case]:  # noqa: A002 (Caffe's word)
    """All cases of one layer type; FileNotFoundError if none were recorded."""
    with np.load(HERE / "layers" / f"{type}.npz") as file:
        arrays = dict(file)
    index = json.loads(str(arrays.pop("index")))
    return [_case(type, name, about, arrays) for name, about in index.items()]


def _case(kind: str, name: str, about: dict[str, object], arrays: dict[str, F32]) -> Case:
    own = {key[len(name) + 1 :]: data for key, data in arrays.items() if key.startswith(f"{name}/")}
    params = _numbered(own, "param")
    steps: list[Step] = []
    current = params
    for number in range(int(str(about["steps"]))):
        step = _step({**own}, str(number), about, current)
        current = step.params_after
        steps.append(step)
    return Case(
        type=kind,
        name=name,
        prototxt=str(about["prototxt"]),
        phase=str(about["phase"]),
        params=params,
        steps=steps,
        extra={key[len("extra/") :]: data for key, data in own.items() if key.startswith("extra/")},
        backward=bool(about["backward"]),
    )


def _step(own: dict[str, F32], number: str, about: dict[str, object], params: list[F32]) -> Step:
    bottoms = _numbered(own, f"{number}/bottom")
    diffs = [own.get(f"{number}/bottom_diff/{i}") for i in range(len(bottoms))]
    return Step(
        bottoms=bottoms,
        tops=_numbered(own, f"{number}/top"),
        top_diffs=_numbered(own, f"{number}/top_diff"),
        bottom_diffs=diffs if about["backward"] else [],
        param_diffs=_numbered(own, f"{number}/param_diff"),
        params_after=[own.get(f"{number}/param_after/{i}", old) for i, old in enumerate(params)],
    )


def _numbered(own: dict[str, F32], prefix: str) -> list[F32]:
    """The arrays <prefix>/0, <prefix>/1, ... in order."""
    found: list[F32] = []
    while (key := f"{prefix}/{len(found)}") in own:
        found.append(own[key])
    return found
