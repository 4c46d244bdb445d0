"""Ask the reference Caffe about every layer case and write layers/<type>.npz.

Run with the reference interpreter (README.md says how to make one):

    GLOG_minloglevel=2 python3.8 tests/reference/make_layers.py [TYPE ...]

Each case runs in a forked process: a failed CHECK of Caffe aborts, and must not take others along.
The tested layer alone is run, forward then backward, on blobs filled here. Which of the gradients
asked for Caffe wrote is observed, not assumed: bottom diffs start as a value that no gradient has.
(Diffs not asked for may hold anything: Scale with two bottoms uses one as scratch.)
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import zlib
from pathlib import Path

import caffe
import numpy as np
from batch_norm import batch_step, uses_batch
from layer_cases import LayerCase, normal
from layer_cases_more import CASES

UNTOUCHED = np.float32(-12345.678)
HERE = Path(__file__).parent


def layer_text(case: LayerCase) -> str:
    """The tested layer alone, as prototxt; bottoms b0, b1, ...; its top names."""
    bottoms = "".join(f'  bottom: "b{i}"\n' for i in range(len(case.steps[0])))
    tops = "".join(f'  top: "{top}"\n' for top in case.tops)
    return f'layer {{\n  name: "layer"\n  type: "{case.type}"\n{bottoms}{tops}  {case.text}\n}}\n'


def net_text(case: LayerCase, shapes: list) -> str:
    """A net around the tested layer in which exactly the wanted gradients are asked for."""
    flags = case.grad if isinstance(case.grad, tuple) else (False,) * len(shapes)
    text = 'name: "case"\n' + ("force_backward: true\n" if case.grad == "force" else "")
    for i, shape in enumerate(shapes):
        dims = " ".join(f"dim: {dim}" for dim in shape)
        kind, param = ("Parameter", "parameter_param") if flags[i] else ("Input", "input_param")
        text += (
            f'layer {{ name: "in{i}" type: "{kind}" top: "b{i}" '
            f"{param} {{ shape {{ {dims} }} }} }}\n"
        )
    text += layer_text(case)
    if isinstance(case.grad, tuple) and not case.type.endswith("Loss"):
        for top in case.tops:
            text += (
                f'layer {{ name: "tail_{top}" type: "Power" bottom: "{top}" '
                f'top: "tail_{top}" loss_weight: 1 }}\n'
            )
    return text


def write_hdf5(extra: dict, folder: Path) -> Path:
    """Write the files "<number>/<dataset>" of `extra` and the list that names them."""
    import h5py

    for key, data in extra.items():
        number, name = key.split("/")
        with h5py.File(str(folder / f"{number}.h5"), "a") as file:
            file[name] = data
    names = sorted({str(folder / f"{key.split('/')[0]}.h5") for key in extra})
    source = folder / "list.txt"
    source.write_text("\n".join(names) + "\n")
    return source


def set_params(case: LayerCase, params: list, rng: np.random.RandomState) -> None:
    """Fill the layer's blobs as the case wants."""
    if case.params == "init":
        return
    draws = case.params or [normal(*blob.data.shape, scale=0.5) for blob in params]
    for i, blob in enumerate(params):
        blob.data[...] = draws[i](rng)


def run_step(net: caffe.Net, case: LayerCase, bottoms: list, rng: np.random.RandomState) -> dict:
    """One forward and, if wanted, one backward pass; returns the arrays seen."""
    index = list(net._layer_names).index("layer")
    params = list(net.params.get("layer", []))
    before = [blob.data.copy() for blob in params]
    names = [f"b{i}" for i in range(len(bottoms))]
    seen = {}
    for i, name in enumerate(names):
        data = bottoms[i]
        net.blobs[name].reshape(*data.shape)
        net.blobs[name].data[...] = data
        net.blobs[name].diff[...] = UNTOUCHED
        seen[f"bottom/{i}"] = data
    net._forward(index, index)
    for i, top in enumerate(case.tops):
        seen[f"top/{i}"] = net.blobs[top].data.copy()
    for i, blob in enumerate(params):
        if not np.array_equal(before[i], blob.data):
            seen[f"param_after/{i}"] = blob.data.copy()
    if case.grad == "none":
        return seen
    for i, top in enumerate(case.tops):
        blob = net.blobs[top]
        if net.blob_loss_weights[top] == 0:
            blob.diff[...] = normal(*blob.data.shape)(rng)
        seen[f"top_diff/{i}"] = blob.diff.copy()
    net._backward(index, index)
    for i, name in enumerate(names):
        diff = net.blobs[name].diff
        asked = not isinstance(case.grad, tuple) or case.grad[i]
        if asked and not (diff == UNTOUCHED).all():
            seen[f"bottom_diff/{i}"] = diff.copy()
    for i, blob in enumerate(params):
        seen[f"param_diff/{i}"] = blob.diff.copy()
    return seen


def run_batch_norm_step(
    case: LayerCase, params: list, bottoms: list, rng: np.random.RandomState
) -> dict:
    """run_step for a BatchNorm in batch mode (batch_norm.py says why)."""
    dy = normal(*bottoms[0].shape)(rng)
    stats = [blob.data for blob in params]
    seen = {"bottom/0": bottoms[0], "top_diff/0": dy}
    seen.update(batch_step(layer_text(case), bottoms[0], dy, stats))
    for i, data in enumerate(stats):
        seen[f"param_after/{i}"] = data.copy()
        seen[f"param_diff/{i}"] = np.zeros_like(data)
    return seen


def run_case(case: LayerCase, pipe: multiprocessing.connection.Connection) -> None:
    """Build the net, run all steps and send (description, arrays) through `pipe`."""
    caffe.set_mode_cpu()
    rng = np.random.RandomState(zlib.crc32(f"{case.type}/{case.name}".encode()))
    extra = {key: draw(rng) for key, draw in case.extra.items()}
    steps = [[draw(rng) for draw in step] for step in case.steps]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = net_text(case, [data.shape for data in steps[0]])
        if "SOURCE" in text:
            text = text.replace("SOURCE", str(write_hdf5(extra, folder)))
        (folder / "net.prototxt").write_text(text)
        net = caffe.Net(str(folder / "net.prototxt"), getattr(caffe, case.phase))
        params = list(net.params.get("layer", []))
        set_params(case, params, rng)
        arrays = {f"param/{i}": blob.data.copy() for i, blob in enumerate(params)}
        arrays.update({f"extra/{key}": data for key, data in extra.items()})
        if case.type == "MemoryData":
            net.set_input_arrays(extra["data"], extra["label"])
        composed = case.type == "BatchNorm" and uses_batch(layer_text(case), case.phase)
        for number, bottoms in enumerate(steps):
            if composed:
                seen = run_batch_norm_step(case, params, bottoms, rng)
            else:
                seen = run_step(net, case, bottoms, rng)
            arrays.update({f"{number}/{key}": data for key, data in seen.items()})
    description = {
        "prototxt": layer_text(case),
        "phase": case.phase,
        "steps": len(steps),
        "bottoms": len(steps[0]),
        "params": len(params),
        "backward": case.grad != "none",
    }
    pipe.send((description, arrays))


def ask(case: LayerCase) -> tuple:
    """run_case in a process of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=run_case, args=(case, theirs))
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"{case.type}/{case.name}: Caffe ended with {process.exitcode}") from None
    process.join()
    return answer


def main() -> None:
    """Write one npz file per layer type (all types, or those named)."""
    wanted = set(sys.argv[1:]) or {case.type for case in CASES}
    total = 0
    for kind in sorted(wanted):
        index, arrays = {}, {}
        for case in (case for case in CASES if case.type == kind):
            if case.name in index:
                raise SystemExit(f"{kind}/{case.name} is named twice")
            index[case.name], found = ask(case)
            arrays.update({f"{case.name}/{key}": data for key, data in found.items()})
        path = HERE / "layers" / f"{kind}.npz"
        np.savez_compressed(str(path), index=np.array(json.dumps(index)), **arrays)
        total += path.stat().st_size
        print(f"{kind:26s}{len(index):4d} cases{path.stat().st_size:9d} bytes")
    print(f"{total} bytes")


if __name__ == "__main__":
    main()
