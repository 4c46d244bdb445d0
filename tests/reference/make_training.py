"""Train LeNet and CIFAR-10 quick with the reference Caffe and write training/<net>_<solver>.npz.

Run with the reference interpreter (README.md):

    GLOG_minloglevel=2 python3.8 tests/reference/make_training.py [NET_SOLVER ...]

All trainings of a net start from the same weights (digest.py) and read one LMDB in its order
(pictures.py). Each runs in a process of its own, once plainly and three times with every weight but
0 moved to a neighbouring float (up or down at random) before each iteration. How far those part from
the plain run is what rounding alone can do to this training; it is stored beside the values as their
spread.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from digest import Digest, digest, distance, start
from pictures import write_digits

HERE = Path(__file__).resolve().parent
KEPT = (1, 10, 50, 100)
SHAKES = 3
FULL = ("cifar10_quick_SGD", 10)


def train(name: str, out: Path, shake: int) -> None:
    """One training in the current folder, which holds nets and databases; 0 does not shake it."""
    import caffe

    caffe.set_mode_cpu()
    solver = caffe.get_solver(f"{name}.prototxt")
    blobs = {}
    for layer, params in solver.net.params.items():
        for i, blob in enumerate(params):
            blobs[f"{layer}/{i}"] = blob
            blob.data[...] = start(f"{layer}/{i}", blob.data.shape)
    losses = []
    last = len(solver.net.layers) - 1

    def note(layer: int) -> None:
        if layer == last:
            losses.append(float(solver.net.blobs["loss"].data))

    solver.net.after_forward(note)
    arrays = {}
    rng = np.random.RandomState(shake)
    text = Path(f"{name}.prototxt").read_text()
    steps = int(text.split("max_iter:")[1].split()[0])
    for iteration in range(1, steps + 1):
        for blob in blobs.values() if shake else ():
            target = rng.choice([-np.inf, np.inf], size=blob.data.shape).astype(np.float32)
            blob.data[...] = np.where(blob.data == 0, 0, np.nextafter(blob.data, target))
        solver.step(1)
        for key, blob in blobs.items() if iteration in KEPT else ():
            found = digest(key, blob.data)
            arrays[f"{iteration}/{key}/norm"] = np.array(found.norm)
            arrays[f"{iteration}/{key}/samples"] = found.samples
            arrays[f"{iteration}/{key}/projections"] = found.projections
            if (name, iteration) == FULL:
                arrays[f"{iteration}/{key}/values"] = blob.data.copy()
    np.savez(str(out), losses=np.array(losses, dtype=np.float32), **arrays)


def run(name: str, folder: Path, shake: int) -> dict:
    """`train` in a process of its own; its arrays."""
    env = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    out = folder / "found.npz"
    command = [
        sys.executable,
        str(HERE / "make_training.py"),
        "--train",
        name,
        str(out),
        str(shake),
    ]
    subprocess.run(command, cwd=str(folder), env=env, check=True)
    with np.load(str(out)) as file:
        return dict(file)


def spread(plain: dict, shaken: list) -> dict:
    """How far the shaken runs part: largest loss difference so far, and |difference| / |blob|."""
    parted = np.max([np.abs(run["losses"] - plain["losses"]) for run in shaken], axis=0)
    found = {"losses_spread": np.maximum.accumulate(parted)}
    for key in (key[: -len("/norm")] for key in plain if key.endswith("/norm")):
        base, *others = (
            Digest(float(run[f"{key}/norm"]), run[f"{key}/samples"], run[f"{key}/projections"])
            for run in (plain, *shaken)
        )
        found[f"{key}/spread"] = np.array(max(distance(other, base) for other in others))
    return found


def main() -> None:
    """Write all training fixtures, or those named."""
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        return
    known = sorted(path.stem for path in (HERE / "nets").glob("*_*.prototxt"))
    names = sys.argv[1:] or [name for name in known if name != "cifar10_quick"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (HERE / "nets").glob("*.prototxt"):
            shutil.copy(str(path), str(folder))
        for net in ("lenet", "cifar10_quick"):
            write_digits(net, folder / f"{net}_lmdb")
        for training in names:
            plain, *shaken = (run(training, folder, shake) for shake in range(1 + SHAKES))
            plain.update(spread(plain, shaken))
            np.savez_compressed(str(HERE / "training" / f"{training}.npz"), **plain)
            at_ten = max(plain[k] for k in plain if k.startswith("10/") and k.endswith("/spread"))
            losses, parted = plain["losses"], plain["losses_spread"]
            print(
                f"{training:24s} loss {losses[0]:.6f} -> {losses[-1]:.6f}; spread of loss in 50 "
                f"{parted[:50].max():.1e}, of weights at 10 {at_ten:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
