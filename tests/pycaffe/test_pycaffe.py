"""`import swcaffe as caffe`: what a pycaffe script does."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import swcaffe as caffe
from swcaffe.errors import (
    EngineError,
    NetError,
    ParameterError,
    PrototxtError,
    ShapeError,
    SwcaffeError,
    UsageError,
)
from swcaffe.pycaffe.mode import current_engine

NET = """
name: "tiny"
layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 4 dim: 5 } shape { dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    caffe.set_engine("host")
    caffe.set_random_seed(4)
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 5 '
        f'snapshot_prefix: "{tmp_path}/s" type: "Adam" momentum: 0.9 random_seed: 1'
    )
    return tmp_path


def test_a_net_runs_forward_and_backward(files: Path) -> None:
    net = caffe.Net(str(files / "net.prototxt"), caffe.TRAIN)
    assert list(net.blobs) == ["data", "label", "ip", "loss"]
    assert (net.inputs, net.outputs) == (["data", "label"], ["loss"])
    assert list(net.params) == ["ip"]
    assert [list(p.shape) for p in net.params["ip"]] == [[3, 5], [3]]
    assert net.blob_loss_weights["loss"] == 1
    x = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    out = net.forward(data=x, label=[0, 1, 2, 1], blobs=["ip"])
    w, b = (p.data.astype(np.float64) for p in net.params["ip"])
    z = x @ w.T + b
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    expected = -np.log(p[range(4), [0, 1, 2, 1]]).mean()
    assert out["loss"] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(out["ip"], z, rtol=1e-5)
    assert net.backward()["data"].shape == (4, 5)
    one_hot = np.eye(3)[[0, 1, 2, 1]]
    np.testing.assert_allclose(
        net.params["ip"][0].diff, (p - one_hot).T @ x / 4, rtol=1e-4, atol=1e-7
    )
    net.clear_param_diffs()
    assert not net.params["ip"][0].diff.any()


def test_parts_of_a_net_run_alone(files: Path) -> None:
    net = caffe.Net(str(files / "net.prototxt"), caffe.TEST)
    net.blobs["ip"].data[...] = 0
    assert set(net.forward(start="loss")) == {"loss"}
    assert net.blobs["loss"].data == pytest.approx(np.log(3), rel=1e-6)
    assert set(net.forward(end="ip")) == {"ip"}
    with pytest.raises(NetError, match="did you mean 'ip'"):
        net.forward(start="ipp")


def test_weights_go_to_files_and_back(files: Path) -> None:
    one, two = (caffe.Net(str(files / "net.prototxt"), caffe.TEST) for _ in range(2))
    assert (one.params["ip"][0].data != two.params["ip"][0].data).any()
    one.save(str(files / "w.caffemodel"))
    two.copy_from(str(files / "w.caffemodel"))
    np.testing.assert_array_equal(one.params["ip"][0].data, two.params["ip"][0].data)
    three = caffe.Net(str(files / "net.prototxt"), caffe.TEST, weights=str(files / "w.caffemodel"))
    old = caffe.Net(str(files / "net.prototxt"), str(files / "w.caffemodel"), caffe.TEST)
    np.testing.assert_array_equal(three.params["ip"][0].data, old.params["ip"][0].data)
    one.params["ip"][0].data[...] = 2
    one.save_hdf5(str(files / "w.hdf5"))
    two.load_hdf5(str(files / "w.hdf5"))
    assert (two.params["ip"][0].data == 2).all()
    two.share_with(three)
    three.params["ip"][0].data[...] = 7
    assert (two.params["ip"][0].data == 7).all()


def test_reshaping_and_wrong_arguments(files: Path) -> None:
    net = caffe.Net(str(files / "net.prototxt"), caffe.TEST)
    with pytest.raises(UsageError, match="do not match net inputs"):
        net.forward(data=np.zeros((4, 5)))
    with pytest.raises(ShapeError, match="not batch sized"):
        net.forward(data=np.zeros((3, 5)), label=np.zeros(3))
    net.blobs["data"].reshape(2, 5)
    net.blobs["label"].reshape(2)
    net.reshape()
    assert net.blobs["ip"].data.shape == (2, 3)
    blob = net.blobs["ip"]
    assert (blob.num, blob.channels, blob.height, blob.width, blob.count) == (2, 3, 1, 1, 6)


def test_solvers_step_snapshot_and_restore(files: Path) -> None:
    solver = caffe.get_solver(str(files / "solver.prototxt"))
    assert isinstance(solver, caffe.AdamSolver)
    solver.net.blobs["data"].data[...] = np.random.default_rng(2).normal(size=(4, 5))
    solver.net.blobs["label"].data[...] = [0, 1, 2, 1]
    before = float(solver.net.forward()["loss"])
    solver.step(3)
    solver.snapshot()
    solver.step(2)
    assert (solver.iter, solver.lr) == (5, pytest.approx(0.1))
    assert float(solver.net.forward()["loss"]) < before
    kept = solver.net.params["ip"][0].data.copy()
    solver.restore(str(files / "s_iter_3.solverstate"))
    assert solver.iter == 3
    solver.step(2)
    np.testing.assert_array_equal(solver.net.params["ip"][0].data, kept)
    with pytest.raises(SwcaffeError, match="asked for SGDSolver"):
        caffe.SGDSolver(str(files / "solver.prototxt"))


def test_a_manual_loop_equals_step(files: Path) -> None:
    x = np.random.default_rng(2).normal(size=(4, 5))
    results = []
    for manual in (False, True):
        solver = caffe.get_solver(str(files / "solver.prototxt"))
        solver.net.blobs["data"].data[...] = x
        if manual:
            for _ in range(3):
                solver.net.clear_param_diffs()
                solver.net.forward()
                solver.net.backward()
                solver.apply_update()
        else:
            solver.step(3)
        results.append(solver.net.params["ip"][0].data.copy())
    np.testing.assert_array_equal(*results)


def test_errors_are_exceptions_and_the_process_goes_on(files: Path) -> None:
    bad = files / "bad.prototxt"
    for text, kind in (
        (NET.replace("InnerProduct", "InerProduct"), NetError),
        (NET.replace("dim: 4 }", "dim: 3 }"), ShapeError),
        (NET.replace("num_output", "num_outpt"), PrototxtError),
    ):
        bad.write_text(text)
        for _ in range(2):
            with pytest.raises(kind):
                caffe.Net(str(bad), caffe.TEST)
    for _ in range(2):
        with pytest.raises(SwcaffeError, match="missing"):
            caffe.Net(str(files / "missing.prototxt"), caffe.TEST)
    assert caffe.Net(str(files / "net.prototxt"), caffe.TEST).forward()


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("hosst", {}, "unknown engine 'hosst' .did you mean 'host'"),
        ("host", {"fidelity": "tile"}, "unknown option of engine host 'fidelity'"),
        ("sw26010", {"fidelity": "mash"}, "unknown fidelity 'mash'"),
        ("host", {"threads": -1}, "threads is -1"),
    ],
)
def test_a_wrong_engine_is_refused_when_it_is_set_and_the_old_one_stays(
    name: str, options: dict[str, object], text: str
) -> None:
    before = current_engine()
    with pytest.raises(EngineError, match=text) as caught:
        caffe.set_engine(name, **options)
    assert caught.value.fix
    assert current_engine() is before


def test_a_phase_that_does_not_exist_is_refused(files: Path) -> None:
    with pytest.raises(UsageError, match="there is no phase 7"):
        caffe.Net(str(files / "net.prototxt"), 7)


def test_callbacks_see_each_iteration_before_its_update(files: Path) -> None:
    solver = caffe.get_solver(str(files / "solver.prototxt"))
    seen: list[tuple[str, int, bool]] = []

    def note(what: str) -> None:
        seen.append((what, solver.iter, bool(solver.net.params["ip"][0].diff.any())))

    solver.add_callback(lambda: note("start"), lambda: note("ready"))
    solver.net.blobs["data"].data[...] = 1
    solver.step(2)
    assert seen == [
        ("start", 0, False),
        ("ready", 0, True),
        ("start", 1, False),
        ("ready", 1, True),
    ]


def test_one_device_and_three_log_levels_are_there_for_old_scripts() -> None:
    caffe.set_device(0)
    with pytest.raises(ParameterError, match="there is no device 1"):
        caffe.set_device(1)
    logger = logging.getLogger("swcaffe")
    before = (logger.level, logger.propagate, logger.handlers[:])
    for level, python_level in ((0, logging.INFO), (1, logging.WARNING), (2, logging.ERROR)):
        caffe.init_log(level)
        assert logger.level == python_level
    logger.level, logger.propagate, logger.handlers[:] = before


def test_layer_types_are_listed_in_byte_order() -> None:
    names = caffe.layer_type_list()
    assert {"Convolution", "Data", "LSTM", "SoftmaxWithLoss"} <= set(names)
    assert names == sorted(names)


def test_the_default_engine_is_the_sw26010_unless_cpu_is_set(files: Path) -> None:
    code = (
        "import swcaffe as caffe, sys\n"
        "from swcaffe.pycaffe.mode import current_engine\n"
        "if len(sys.argv) > 2: getattr(caffe, sys.argv[2])()\n"
        "print(current_engine().name)"
    )
    for mode, engine in (
        ((), "sw26010"),
        (("set_mode_cpu",), "host"),
        (("set_mode_gpu",), "sw26010"),
    ):
        out = subprocess.run(
            [sys.executable, "-c", code, "x", *mode], capture_output=True, text=True, check=True
        )
        assert out.stdout.strip() == engine
