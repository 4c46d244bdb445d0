"""Write interop/: small files of every format, made by the reference Caffe itself.

Run with the reference interpreter (README.md) where g++ is installed:

    GLOG_minloglevel=2 python3.8 tests/reference/make_interop.py

Databases come from the wheel's own database code (db_shim.cc), snapshots from its solvers, and
expected.npz from check_interop.py reading all of them back.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import caffe
import h5py
import numpy as np
from caffe.proto import caffe_pb2
from digest import start
from pictures import datum, digits

HERE = Path(__file__).resolve().parent
OUT = HERE / "interop"
RECORDS, STEPS, MORE = 20, 5, 3
LOCKS = shutil.ignore_patterns("LOG", "LOCK", "lock.mdb")
KINDS, FORMS = ("SGD", "Adam"), ("BINARYPROTO", "HDF5")


def write_databases(images: np.ndarray, labels: np.ndarray) -> None:
    """digits_lmdb and digits_leveldb in the current folder, through Caffe's code."""
    library = caffe._caffe.__file__
    shim = Path("shim.so").resolve()
    command = ["g++", "-shared", "-fPIC", "-O1", str(HERE / "db_shim.cc"), library, "-o", str(shim)]
    subprocess.run([*command, "-Wl,--allow-shlib-undefined"], check=True)
    values = [datum(image, int(label)) for image, label in zip(images, labels)]  # noqa: B905
    keys = [f"{i:08d}".encode() for i in range(len(values))]
    text, number = ctypes.c_char_p * len(keys), ctypes.c_int * len(keys)
    for backend in ("lmdb", "leveldb"):
        ctypes.CDLL(str(shim)).write_db(
            backend.encode(),
            f"digits_{backend}".encode(),
            len(keys),
            text(*keys),
            text(*values),
            number(*map(len, values)),
        )


def write_mean(images: np.ndarray) -> None:
    """mean.binaryproto as compute_image_mean leaves it: legacy dimensions, float32."""
    mean = images.astype(np.float64).mean(axis=0)
    proto = caffe_pb2.BlobProto(num=1, channels=1, height=8, width=8, data=mean.ravel())
    Path("mean.binaryproto").write_bytes(proto.SerializeToString())


def train(solver_name: str) -> None:
    """Train from digest.start and snapshot after STEPS iterations."""
    solver = caffe.get_solver(f"{solver_name}.prototxt")
    for layer, params in solver.net.params.items():
        for i, blob in enumerate(params):
            blob.data[...] = start(f"{layer}/{i}", blob.data.shape)
    solver.step(STEPS)
    solver.snapshot()


def history(state: Path) -> dict:
    """The history blobs of a solver state by their number."""
    if state.suffix == ".h5":
        with h5py.File(str(state), "r") as file:
            return {number: values[()] for number, values in file["history"].items()}
    blobs = caffe_pb2.SolverState.FromString(state.read_bytes()).history
    return {str(i): np.array(blob.data).reshape(blob.shape.dim) for i, blob in enumerate(blobs)}


def check(*arguments: str) -> dict:
    """The arrays that check_interop.py prints."""
    command = [sys.executable, str(HERE / "check_interop.py"), *arguments]
    printed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {key: np.array(values).reshape(shape) for key, (shape, values) in printed.items()}


def read(kind: str, form: str) -> dict:
    """What the reference reads from one solver's snapshot, by file name without .h5."""
    ending = ".h5" if form == "HDF5" else ""
    name = f"{kind}_iter_{STEPS}"
    state = f"{name}.solverstate{ending}"
    return {
        f"{name}.caffemodel": check("weights", "tiny.prototxt", f"{name}.caffemodel{ending}"),
        f"{name}.solverstate": history(Path(state)),
        f"{kind}_iter_{STEPS + MORE}.caffemodel": check(
            "resume", f"{kind}_{form}.prototxt", state, str(MORE)
        ),
    }


def expectations() -> dict:
    """What the reference reads from the files in the current folder: "<file>|<array>"."""
    found = {"tiny.prototxt": check("data", "tiny.prototxt")}
    for kind in KINDS:
        binary, hdf5 = read(kind, "BINARYPROTO"), read(kind, "HDF5")
        for file, arrays in binary.items():
            if not all(np.array_equal(arrays[key], hdf5[file][key]) for key in arrays):
                raise SystemExit(f"{file}: the two formats differ")
        found.update(binary)
    return {
        f"{file}|{key}": values.astype(np.float32)
        for file, arrays in found.items()
        for key, values in arrays.items()
    }


def main() -> None:
    """Make everything in a temporary folder, then copy it to interop/."""
    images, labels = (array[:RECORDS] for array in digits())
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        for path in OUT.glob("*.prototxt"):
            shutil.copy(str(path), name)
        write_databases(images[:, None], labels)
        write_mean(images[:, None])
        for solver in (f"{kind}_{form}" for kind in KINDS for form in FORMS):
            code = f"import make_interop; make_interop.train({solver!r})"
            env = dict(os.environ, PYTHONPATH=str(HERE))
            subprocess.run([sys.executable, "-c", code], env=env, check=True)
        np.savez_compressed("expected.npz", **expectations())
        kept = [*Path().glob("*iter*"), Path("mean.binaryproto"), Path("expected.npz")]
        for path in kept:
            shutil.copy(str(path), str(OUT))
        for folder in ("digits_lmdb", "digits_leveldb"):
            shutil.rmtree(str(OUT / folder), ignore_errors=True)
            shutil.copytree(folder, str(OUT / folder), ignore=LOCKS)
        os.chdir(str(HERE))


if __name__ == "__main__":
    main()
