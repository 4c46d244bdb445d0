"""Layers as nets use them: in-place chains, named records, automatic tops, one class a file."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_near

import swcaffe.layers
from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value
from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, NetError
from swcaffe.net.definition import definition_of, merged_state
from swcaffe.net.layer import LAYERS, Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse

Build = Callable[..., Net]


@pytest.fixture
def build(engine: Engine) -> Build:
    def make(text: str, phase: Phase = Phase.TRAIN) -> Net:
        parsed = parse(text, messages.NetParameter, name="net.prototxt")
        state = merged_state(parsed.message.state, messages.NetState(phase=int(phase)))
        return Net(definition_of(parsed.message, state, parsed), BuildOptions(engine, seed=1))

    return make


HEAD = """
force_backward: true
layer { name: "x" type: "Input" top: "x" top: "t"
  input_param { shape { dim: [2, 3, 4, 4] } shape { dim: [2, 5] } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
"""
TAIL = """
layer { name: "ip" type: "InnerProduct" bottom: "last" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "t" top: "loss" }
"""
CHAINS = {
    "lrn_relu": ["LRN", "ReLU"],
    "mvn_relu": ["MVN", "ReLU"],
    "mvn_in_place_relu": ["+MVN", "ReLU"],
    "max_pool_relu": ["Pooling", "ReLU"],
    "relu_dropout": ["+ReLU", "Dropout"],
    "sigmoid_dropout": ["+Sigmoid", "Dropout"],
    "tanh_scale": ["+TanH", "Scale"],
    "relu_scale": ["+ReLU", "Scale"],
    "elu_bias_relu": ["+ELU", "Bias", "ReLU"],
    "batch_norm_scale_relu": ["+BatchNorm", "Scale", "ReLU"],
    "prelu_batch_norm": ["+PReLU", "BatchNorm"],
    "abs_power_exp": ["+AbsVal", "Power", "Exp"],
    "bnll_log": ["BNLL", "Log"],
    "swish_clip_relu": ["Swish", "Clip", "ReLU"],
    "softmax_relu": ["Softmax", "ReLU"],
    "flatten_dropout": ["Flatten", "Dropout"],
}
PARAMS = {
    "Pooling": "pooling_param { kernel_size: 2 stride: 2 }",
    "Scale": 'scale_param { bias_term: true filler { type: "gaussian" } }',
    "Bias": 'bias_param { filler { type: "gaussian" } }',
    "LRN": "lrn_param { alpha: 0.5 }",
    "Power": "power_param { power: 2 scale: 0.5 shift: 0.1 }",
    "Clip": "clip_param { min: -0.2 max: 0.7 }",
}


def chain(kinds: list[str], in_place: bool) -> str:
    """Layers after the convolution; all but the first, and the first with +, may be in place."""
    text, blob = HEAD, "c"
    for i, kind in enumerate(kinds):
        top = blob if in_place and (i or kind.startswith("+")) else f"b{i}"
        kind = kind.strip("+")
        text += (
            f'layer {{ name: "l{i}" type: "{kind}" bottom: "{blob}" top: "{top}" '
            f"{PARAMS.get(kind, '')} }}\n"
        )
        blob = top
    return text + TAIL.replace('"last"', f'"{blob}"')


@pytest.mark.parametrize("name", CHAINS)
def test_an_in_place_chain_equals_its_twin_that_is_not(name: str, build: Build, rng) -> None:
    nets = [build(chain(CHAINS[name], in_place)) for in_place in (False, True)]
    x, t = rng.normal(size=(2, 3, 4, 4)), rng.normal(size=(2, 5))
    losses = []
    for net in nets:
        net.blob("x").data[...] = x
        net.blob("t").data[...] = t
        losses.append(net.forward())
        net.backward()
    assert len(nets[1].blobs) < len(nets[0].blobs)
    assert losses[0] == losses[1]
    assert_near(nets[1].blob("x").diff, nets[0].blob("x").diff, 1e-6)
    for a, b in zip(nets[1].params, nets[0].params, strict=True):
        assert_near(a.blob.diff, b.blob.diff, 1e-6, f"{a.layer.name} {a.index}")
    assert np.any(nets[0].blob("x").diff)


def test_finite_differences_agree_with_an_in_place_chain(build: Build, rng) -> None:
    net = build(chain(CHAINS["batch_norm_scale_relu"], in_place=True))
    x, t = net.blob("x").data, net.blob("t").data
    x[...], t[...] = rng.normal(size=x.shape), rng.normal(size=t.shape)
    net.forward()
    net.backward()
    gradient = net.blob("x").diff.copy()
    for place in [(0, 0, 0, 0), (1, 2, 3, 1), (0, 1, 2, 2)]:
        here, step = x[place], 1e-2
        x[place] = here + step
        above = net.forward()
        x[place] = here - step
        below = net.forward()
        x[place] = here
        estimate = (above - below) / (2 * step)
        assert abs(estimate - gradient[place]) <= 0.02 * max(1.0, abs(estimate))


@pytest.mark.parametrize("kind", ["LRN", "Eltwise", "Flatten", "Reshape", "Split"])
def test_layers_that_would_be_wrong_in_place_are_refused(kind: str, build: Build) -> None:
    text = HEAD + f'layer {{ name: "l" type: "{kind}" bottom: "c" top: "c" }}'
    with pytest.raises(NetError, match="cannot work in place"):
        build(text)


def test_a_wrong_label_names_its_record(build: Build, tmp_path: Path) -> None:
    with create_database(tmp_path / "db") as database:
        for i, label in enumerate([1, 2, 3, 4, 5, 6]):
            database.put(f"{i:02d}.png", raw_value(np.zeros((1, 1, 2), np.uint8), label))
    net = build(
        f"""
layer {{ name: "in" type: "Data" top: "x" top: "t"
  data_param {{ source: "{tmp_path}/db" batch_size: 6 backend: LMDB }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param {{ num_output: 6 }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "t" }}"""
    )
    with pytest.raises(DataError, match=r'label 6 of item 5.*"05\.png" of layer "in"') as caught:
        net.forward()
    net.close()
    assert caught.value.where == "net.prototxt:6"
    assert "1-based" in caught.value.fix


CAFFE = """AbsVal Accuracy ArgMax BNLL BatchNorm BatchReindex Bias Clip Concat ContrastiveLoss
Convolution Crop Data Deconvolution Dropout DummyData ELU Eltwise Embed EuclideanLoss Exp Filter
Flatten HDF5Data HDF5Output HingeLoss Im2col ImageData InfogainLoss InnerProduct Input LRN LSTM
LSTMUnit Log MVN MemoryData MultinomialLogisticLoss PReLU Parameter Pooling Power Python RNN ReLU
Reduction Reshape SPP Scale Sigmoid SigmoidCrossEntropyLoss Silence Slice Softmax SoftmaxWithLoss
Split Swish TanH Threshold Tile WindowData"""


def test_every_layer_type_of_caffe_is_there() -> None:
    assert len(CAFFE.split()) == 61
    assert set(CAFFE.split()) <= set(LAYERS)


def test_one_file_holds_one_registered_class() -> None:
    folder = Path(swcaffe.layers.__file__).parent
    public = [p for p in folder.glob("*.py") if not p.name.startswith("_")]
    assert len(public) == len(LAYERS)
    for path in public:
        classes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)]
        registered = [c for c in classes if c.decorator_list]
        assert [c.name for c in registered] == [LAYERS.get(registered[0].name).__name__], path


def test_registering_all_layers_loads_no_heavy_package() -> None:
    code = (
        "import sys, swcaffe.layers; "
        "print([m for m in ('numba', 'lmdb', 'h5py', 'PIL', 'mpi4py') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


MANY = (
    HEAD.replace("dim: [2, 3, 4, 4]", "dim: [4, 3, 8, 8]").replace("dim: [2, 5]", "dim: [4, 5]")
    + """
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "scale" type: "Scale" bottom: "c" top: "c" }
layer { name: "relu" type: "ReLU" bottom: "c" top: "c" }
layer { name: "lrn" type: "LRN" bottom: "c" top: "lrn" }
layer { name: "a" type: "Pooling" bottom: "lrn" top: "a"
  pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "b" type: "Pooling" bottom: "lrn" top: "b"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
layer { name: "cat" type: "Concat" bottom: "sum" bottom: "b" top: "cat" }
layer { name: "cut" type: "Slice" bottom: "cat" top: "cut0" top: "cut1" }
layer { name: "prelu" type: "PReLU" bottom: "cut0" top: "cut0" }
layer { name: "tanh" type: "TanH" bottom: "cut1" top: "cut1" }
layer { name: "both" type: "Eltwise" bottom: "cut0" bottom: "cut1" top: "both"
  eltwise_param { operation: PROD } }
layer { name: "global" type: "Pooling" bottom: "both" top: "global"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "flat" type: "Flatten" bottom: "global" top: "last" }
"""
    + TAIL
)


def test_a_net_reshaped_again_and_again_equals_fresh_ones(build: Build, rng) -> None:
    used = build(MANY)
    start = [param.blob.data.copy() for param in used.params]
    for n, height, width in [(8, 8, 8), (1, 8, 8), (9, 8, 8), (2, 8, 16), (3, 12, 10)]:
        x, t = rng.normal(size=(n, 3, height, width)), rng.normal(size=(n, 5))
        runs = []
        for net in (used, build(MANY)):
            for param, values in zip(net.params, start, strict=True):
                param.blob.data[...] = values
            net.clear_param_diffs()
            for name, values in (("x", x), ("t", t)):
                net.blob(name).reshape(values.shape)
                net.blob(name).data[...] = values
            loss = net.forward()
            net.backward()
            runs.append((loss, net.blob("x").diff.copy(), [p.blob.diff.copy() for p in net.params]))
        assert runs[0][0] == runs[1][0]
        assert np.array_equal(runs[0][1], runs[1][1])
        assert all(np.array_equal(a, b) for a, b in zip(runs[0][2], runs[1][2], strict=True))
