"""Layers that users write in Python, in nets and on their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

import swcaffe as caffe
from swcaffe.engine.engine import Engine
from swcaffe.errors import ParameterError
from swcaffe.net.layer import Phase

SOURCE = """
import numpy as np
import swcaffe as caffe


class Distance(caffe.Layer):
    def setup(self, bottom, top):
        if len(bottom) != 2:
            raise RuntimeError("Distance needs two bottoms")

    def reshape(self, bottom, top):
        self.difference = np.zeros(bottom[0].shape, np.float32)
        top[0].reshape()

    def forward(self, bottom, top):
        self.difference[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = np.sum(self.difference**2) / bottom[0].num / 2

    def backward(self, top, propagate_down, bottom):
        for i, sign in enumerate((1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * top[0].diff * self.difference / bottom[i].num


class Factor(caffe.Layer):
    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = float(self.param_str)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data * self.blobs[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += np.sum(top[0].diff * bottom[0].data)
        if propagate_down[0]:
            bottom[0].diff[...] = top[0].diff * self.blobs[0].data


class Phase(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(1)

    def forward(self, bottom, top):
        top[0].data[...] = self.phase


class Alone:
    pass
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user_layers.py").write_text(SOURCE)
    (tmp_path / "broken_layers.py").write_text("import a_module_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)


def python(name: str, more: str = "", module: str = "user_layers") -> str:
    return f'python_param {{ module: "{module}" layer: "{name}" {more} }}'


def test_a_layer_in_python_passes_the_battery_of_all_layers(engine: Engine, rng) -> None:
    check_layer(
        "Python",
        python("Distance"),
        [rng.normal(size=(4, 3)), rng.normal(size=(4, 3))],
        expected=lambda a, b: ((a - b) ** 2).sum() / 8,
        engine=engine,
    )


def test_a_layer_in_python_has_weights_that_learn(engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 3))
    params = python("Factor", 'param_str: "1.5"')
    one = check_layer("Python", params, [x], expected=lambda x: 1.5 * x, engine=engine)
    assert [blob.shape for blob in one.layer.blobs] == [(1,)]


def test_the_phase_is_known_before_setup(engine: Engine) -> None:
    for phase in (caffe.TRAIN, caffe.TEST):
        text = layer_text("Python", python("Phase"), 0)
        one = OneLayer(text, [], engine, phase=Phase(phase))
        assert one.forward()[0].tolist() == [phase]


def test_a_python_loss_trains_a_python_weight_in_a_net(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(
        f"""
layer {{ name: "in" type: "Input" top: "x" top: "t"
  input_param {{ shape {{ dim: [4, 3] }} }} }}
layer {{ name: "factor" type: "Python" bottom: "x" top: "y" {python("Factor", 'param_str: "1"')} }}
layer {{ name: "loss" type: "Python" bottom: "y" bottom: "t" top: "loss" loss_weight: 1
  {python("Distance")} }}"""
    )
    caffe.set_mode_cpu()
    net = caffe.Net(str(tmp_path / "net.prototxt"), caffe.TRAIN)
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    net.blobs["x"].data[...], net.blobs["t"].data[...] = x, 3 * x
    for _ in range(60):
        net.params["factor"][0].diff[...] = 0
        net.forward()
        net.backward()
        net.params["factor"][0].data[...] -= 0.5 * net.params["factor"][0].diff
    assert_near(net.params["factor"][0].data, [3], 1e-4)
    assert net.blobs["loss"].data < 1e-6


def test_what_a_users_layer_raises_reaches_the_caller(engine: Engine) -> None:
    with pytest.raises(RuntimeError, match="Distance needs two bottoms"):
        OneLayer(layer_text("Python", python("Distance"), 1), [np.zeros(3)], engine)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        OneLayer(layer_text("Python", python("X", module="broken_layers"), 0), [], engine)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("", "module or layer is missing"),
        ('python_param { module: "no_such_module" layer: "X" }', "no module 'no_such_module'"),
        ('python_param { module: "user_layers" layer: "Distanc" }', "did you mean 'Distance'"),
        ('python_param { module: "user_layers" layer: "Alone" }', "has no attach, views, setup"),
    ],
)
def test_a_class_that_is_not_there_is_named(
    params: str, message: str, reference_engine: Engine
) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        OneLayer(layer_text("Python", params, 0), [], reference_engine)
    assert caught.value.fix
