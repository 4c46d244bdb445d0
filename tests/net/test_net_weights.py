"""Weight files: round trips, legacy shapes, partial nets, refusals."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.engine.engine import Engine
from swcaffe.errors import WeightsError
from swcaffe.net.definition import definition_of
from swcaffe.net.net import BuildOptions, Net
from swcaffe.net.weights import load_weights, save_weights, share_weights
from swcaffe.proto import messages
from swcaffe.proto.binary import array_to_blob, write
from swcaffe.proto.prototxt import parse

TEXT = """
name: "tiny"
layer {{ name: "data" type: "Input" top: "x" input_param {{ shape {{ dim: 2 dim: 2 dim: 5 dim: 5 }} }} }}
layer {{ name: "conv/a" type: "Convolution" bottom: "x" top: "c"
  convolution_param {{ num_output: 3 kernel_size: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "{ip}" type: "InnerProduct" bottom: "c" top: "y"
  inner_product_param {{ num_output: {n} weight_filler {{ type: "xavier" }} bias_term: {bias} }} }}
"""


def build(engine: Engine, seed: int = 1, ip: str = "ip", n: int = 4, bias: str = "true") -> Net:
    parsed = parse(TEXT.format(ip=ip, n=n, bias=bias), messages.NetParameter, name="net.prototxt")
    definition = definition_of(parsed.message, messages.NetState(), parsed)
    return Net(definition, BuildOptions(engine, seed=seed))


@pytest.mark.parametrize("name", ["w.caffemodel", "w.caffemodel.h5"])
def test_weights_survive_a_file(reference_engine: Engine, tmp_path: Path, name: str) -> None:
    one, two = build(reference_engine, 1), build(reference_engine, 2)
    save_weights(one, tmp_path / name)
    load_weights(two, tmp_path / name)
    for a, b in zip(one.params, two.params, strict=True):
        np.testing.assert_array_equal(a.blob.data, b.blob.data)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_gradients_are_kept_when_asked(reference_engine: Engine, tmp_path: Path) -> None:
    one, two = build(reference_engine), build(reference_engine, 2)
    one.params[0].blob.diff[...] = 3
    save_weights(one, tmp_path / "w.caffemodel", diff=True)
    load_weights(two, tmp_path / "w.caffemodel")
    assert (two.params[0].blob.diff == 3).all()


@pytest.mark.parametrize("name", ["w.caffemodel", "w.h5"])
def test_other_layers_keep_their_values_and_are_named(
    reference_engine: Engine, tmp_path: Path, name: str
) -> None:
    one, two = build(reference_engine, 1), build(reference_engine, 2, ip="new")
    kept = two.params[2].blob.data.copy()
    save_weights(one, tmp_path / name)
    assert load_weights(two, tmp_path / name) == ["new"]
    np.testing.assert_array_equal(two.params[0].blob.data, one.params[0].blob.data)
    np.testing.assert_array_equal(two.params[2].blob.data, kept)
    assert load_weights(one, tmp_path / name) == []


@pytest.mark.parametrize("name", ["w.caffemodel", "w.h5"])
def test_weights_of_another_net_altogether_are_refused(
    reference_engine: Engine, tmp_path: Path, name: str
) -> None:
    other = TEXT.replace("conv/a", "conv1").format(ip="score", n=4, bias="true")
    parsed = parse(other, messages.NetParameter)
    definition = definition_of(parsed.message, messages.NetState(), parsed)
    save_weights(Net(definition, BuildOptions(reference_engine)), tmp_path / name)
    with pytest.raises(WeightsError, match="has weights for none of the layers conv/a, ip"):
        load_weights(build(reference_engine), tmp_path / name)


@pytest.mark.parametrize("name", ["w.caffemodel", "w.h5"])
def test_other_shapes_are_refused_with_both(
    reference_engine: Engine, tmp_path: Path, name: str
) -> None:
    save_weights(build(reference_engine, n=5), tmp_path / name)
    with pytest.raises(WeightsError, match=r'"ip": parameter 0 has shape \(5, 27\).*\(4, 27\)'):
        load_weights(build(reference_engine), tmp_path / name)


@pytest.mark.parametrize("name", ["w.caffemodel", "w.h5"])
def test_other_blob_counts_are_refused(reference_engine: Engine, tmp_path: Path, name: str) -> None:
    save_weights(build(reference_engine), tmp_path / name)
    with pytest.raises(WeightsError, match='"ip" has 2 parameter blobs'):
        load_weights(build(reference_engine, bias="false"), tmp_path / name)


@pytest.mark.parametrize(
    ("shape", "fits"),
    [((1, 1, 4, 27), True), ((4, 27), True), ((1, 1, 1, 108), False), ((27, 4), False)],
)
@pytest.mark.parametrize("legacy", [True, False])
def test_ones_in_front_of_a_shape_do_not_matter(
    reference_engine: Engine, tmp_path: Path, shape: tuple[int, ...], fits: bool, legacy: bool
) -> None:
    values = np.arange(108, dtype=np.float32)
    blob = array_to_blob(values.reshape(shape))
    if legacy:
        blob.ClearField("shape")
        padded = (1,) * (4 - len(shape)) + shape
        blob.num, blob.channels, blob.height, blob.width = padded
    bias = array_to_blob(np.ones((4,), np.float32))
    net = messages.NetParameter()
    net.layer.add(name="ip", type="InnerProduct", blobs=[blob, bias])
    write(tmp_path / "old.caffemodel", net)
    target = build(reference_engine)
    if not fits:
        with pytest.raises(WeightsError, match="has shape"):
            load_weights(target, tmp_path / "old.caffemodel")
        return
    load_weights(target, tmp_path / "old.caffemodel")
    np.testing.assert_array_equal(target.params[2].blob.data.reshape(-1), values)


def test_a_convolution_refuses_weights_of_equal_count_but_other_shape(
    reference_engine: Engine, tmp_path: Path
) -> None:
    net = messages.NetParameter()
    blob = array_to_blob(np.zeros((1, 1, 3, 18), np.float32))
    net.layer.add(name="conv/a", blobs=[blob, array_to_blob(np.zeros(3, np.float32))])
    write(tmp_path / "w.caffemodel", net)
    with pytest.raises(WeightsError, match=r"\(1, 1, 3, 18\).*\(3, 2, 3, 3\)"):
        load_weights(build(reference_engine), tmp_path / "w.caffemodel")


def test_wrong_files_are_named(reference_engine: Engine, tmp_path: Path) -> None:
    net = build(reference_engine)
    with pytest.raises(WeightsError, match=r"missing\.caffemodel"):
        load_weights(net, tmp_path / "missing.caffemodel")
    (tmp_path / "noise.caffemodel").write_bytes(b"\x00\x01 not a message \xff\xff")
    with pytest.raises(WeightsError, match=r"noise\.caffemodel"):
        load_weights(net, tmp_path / "noise.caffemodel")
    (tmp_path / "x.solverstate").write_bytes(b"")
    with pytest.raises(WeightsError, match=r"solver state.*\n.*\.caffemodel"):
        load_weights(net, tmp_path / "x.solverstate")


def test_shared_nets_use_one_memory(reference_engine: Engine) -> None:
    one, two = build(reference_engine, 1), build(reference_engine, 2)
    share_weights(two, one)
    one.params[0].blob.data[...] = 5
    assert (two.params[0].blob.data == 5).all()
    two.params[0].blob.diff[...] = 1
    assert not one.params[0].blob.diff.any()


BIG = """
layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4500 } } }
layer { name: "big" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 4096 } }
"""


@pytest.mark.slow
def test_large_files_load_without_a_word(
    reference_engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parsed = parse(BIG, messages.NetParameter)
    definition = definition_of(parsed.message, messages.NetState())
    one, two = (Net(definition, BuildOptions(reference_engine)) for _ in range(2))
    one.params[0].blob.data[...] = np.arange(4500)
    for name in ("big.caffemodel", "big.h5"):
        save_weights(one, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 70e6
        two.params[0].blob.data[...] = 0
        caplog.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_weights(two, tmp_path / name)
        assert not caplog.records
        np.testing.assert_array_equal(two.params[0].blob.data, one.params[0].blob.data)
