"""Nets and solvers of every age give the current form, and keep the lines they were written on."""

from __future__ import annotations

import pytest

from swcaffe.errors import PrototxtError
from swcaffe.proto import messages
from swcaffe.proto.layer_types import V0_TYPES, V1_TYPES
from swcaffe.proto.prototxt import parse
from swcaffe.proto.upgrade import upgrade, upgrade_net, upgrade_solver

NET = messages.NetParameter


def upgraded(text):
    return upgrade(parse(text, NET, name="t"))


def net(text):
    return upgraded(text).message


def current(text):
    return parse(text, NET).message


V0 = """name: "old"
layers {
  layer { name: "data" type: "data" source: "db" batchsize: 8 meanfile: "m" cropsize: 20
    mirror: true scale: 0.5 rand_skip: 3 }
  top: "data" top: "label"
}
layers { layer { name: "pad" type: "padding" pad: 2 } bottom: "data" top: "padded" }
layers {
  layer {
    name: "conv" type: "conv" num_output: 6
    kernelsize: 5
    stride: 1 group: 2 biasterm: false weight_filler { type: "xavier" }
    blobs_lr: 1 blobs_lr: 2
    weight_decay: 1 weight_decay: 0
  }
  bottom: "padded" top: "conv"
}
layers { layer { name: "relu" type: "relu" } bottom: "conv" top: "conv" }
layers { layer { name: "pool" type: "pool" pool: AVE kernelsize: 2 stride: 2 }
  bottom: "conv" top: "pool" }
layers { layer { name: "ip" type: "innerproduct" num_output: 10 } bottom: "pool" top: "ip" }
layers { layer { name: "loss" type: "softmax_loss" } bottom: "ip" bottom: "label" }
"""

V0_NOW = """name: "old"
layer { name: "data" type: "Data" top: "data" top: "label"
  data_param { source: "db" batch_size: 8 rand_skip: 3 }
  transform_param { mean_file: "m" crop_size: 20 mirror: true scale: 0.5 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 6 kernel_size: 5 stride: 1 pad: 2 group: 2 bias_term: false
    weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }
"""


def test_oldest_format_folds_padding_and_carries_rates_and_decays():
    assert net(V0) == current(V0_NOW)


def test_oldest_format_keeps_its_lines_through_both_upgrades():
    places = upgraded(V0).source_map
    conv = ("layer", 1, "convolution_param")
    assert places.where(("layer", 0)) == "t:2"
    assert places.where(("layer", 0, "data_param", "source")) == "t:3"
    assert places.where(("layer", 0, "transform_param", "scale")) == "t:4"
    assert places.where(("layer", 1)) == "t:8"
    assert places.where((*conv, "pad", 0)) == "t:7"
    assert places.where((*conv, "kernel_size", 0)) == "t:11"
    assert places.where((*conv, "num_output")) == "t:10"
    assert places.where(("layer", 1, "param", 1, "lr_mult")) == "t:13"
    assert places.where(("layer", 1, "param", 1, "decay_mult")) == "t:14"
    assert places.where(("layer", 1, "bottom", 0)) == "t:16"
    assert places.where(("layer", 5)) == "t:22"


def test_oldest_format_leaves_out_what_a_type_has_no_use_for_and_says_so():
    old = 'layers { layer { name: "r" type: "relu"\n pad: 1 } }'
    parsed = upgraded(old)
    assert parsed.message == current('layer { name: "r" type: "ReLU" }')
    assert "t:2: a relu layer has no use for pad; left out" in parsed.warnings


def test_every_field_of_the_oldest_format_that_caffe_maps_is_mapped():
    text = """layers { layer { name: "w" type: "window_data" source: "s" batchsize: 2
      det_fg_threshold: 0.1 det_bg_threshold: 0.2
      det_fg_fraction: 0.3 det_context_pad: 4 det_crop_mode: "square" } }
    layers { layer { name: "i" type: "images" source: "s" batchsize: 2 rand_skip: 1
      shuffle_images: true new_height: 5 new_width: 6 } }
    layers { layer { name: "n" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.2 k: 2 } }
    layers { layer { name: "d" type: "dropout" dropout_ratio: 0.3 } }
    layers { layer { name: "c" type: "concat" concat_dim: 0 } }
    layers { layer { name: "h" type: "hdf5_output" hdf5_output_param { file_name: "f" } } }
    layers { layer { name: "g" type: "infogain_loss" source: "H" blobs { num: 1 } } }"""
    assert net(text) == current("""
    layer { name: "w" type: "WindowData" window_data_param { source: "s" batch_size: 2
      fg_threshold: 0.1 bg_threshold: 0.2 fg_fraction: 0.3 context_pad: 4 crop_mode: "square" } }
    layer { name: "i" type: "ImageData" image_data_param { source: "s" batch_size: 2 rand_skip: 1
      shuffle: true new_height: 5 new_width: 6 } }
    layer { name: "n" type: "LRN" lrn_param { local_size: 3 alpha: 0.1 beta: 0.2 k: 2 } }
    layer { name: "d" type: "Dropout" dropout_param { dropout_ratio: 0.3 } }
    layer { name: "c" type: "Concat" concat_param { concat_dim: 0 } }
    layer { name: "h" type: "HDF5Output" hdf5_output_param { file_name: "f" } }
    layer { name: "g" type: "InfogainLoss" infogain_loss_param { source: "H" } blobs { num: 1 }
    }""")


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        (
            'layers {\n layer { name: "x"\n type: "convv" } }',
            "t:3",
            "'convv' \\(did you mean 'conv'",
        ),
        (
            'layers { layer { name: "r" type: "relu" }\n bottom: "gone" }',
            "t:2",
            "no layer before 'r' makes its bottom 'gone'",
        ),
        (
            'input: "a" layers { layer { name: "p" type: "padding" pad: 1 } bottom: "a"'
            ' top: "b" }\n'
            'layers { layer { name: "r" type: "relu" } bottom: "b" }',
            "t:2",
            "padding layer 'p' feeds 'r' \\(relu\\)",
        ),
        (
            'input: "a"\nlayers { layer { name: "p" type: "padding" } bottom: "a"'
            ' top: ["b", "c"] }\n'
            'layers { layer { name: "r" type: "conv" } bottom: "b" }',
            "t:2",
            "has 1 bottoms and 2 tops",
        ),
    ],
)
def test_oldest_format_errors_are_placed(text, where, expected):
    with pytest.raises(PrototxtError, match=expected) as caught:
        upgraded(text)
    assert caught.value.where == where


V1 = """name: "v1"
input: "data"
input_dim: 1 input_dim: 3
input_dim: 8 input_dim: 9
layers {
  name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1"
  blobs_lr: 1
  blobs_lr: 2
  param: "w" blob_share_mode: PERMISSIVE
  convolution_param { num_output: 4 kernel_size: 3 }
  include { phase: TEST }
}
layers { name: "prob" type: SOFTMAX bottom: "conv1" top: "prob" loss_weight: 0 }
"""


def test_v1_deploy_net_equals_the_modern_form():
    assert net(V1) == current("""name: "v1"
      layer { name: "input" type: "Input" top: "data" input_param { shape { dim: [1, 3, 8, 9] } } }
      layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        param { lr_mult: 1 name: "w" share_mode: PERMISSIVE } param { lr_mult: 2 }
        convolution_param { num_output: 4 kernel_size: 3 } include { phase: TEST } }
      layer { name: "prob" type: "Softmax" bottom: "conv1" top: "prob" loss_weight: 0 }""")


def test_v1_net_keeps_its_lines_behind_the_inserted_input_layer():
    places = upgraded(V1).source_map
    assert places.where(("layer", 0)) == "t:2"
    assert places.where(("layer", 0, "top", 0)) == "t:2"
    assert places.where(("layer", 0, "input_param", "shape", 0, "dim", 2)) == "t:4"
    assert places.where(("layer", 1)) == "t:5"
    assert places.where(("layer", 1, "param", 1, "lr_mult")) == "t:8"
    assert places.where(("layer", 1, "param", 0, "name")) == "t:9"
    assert places.where(("layer", 2)) == "t:13"


def test_upgrade_leaves_its_argument_as_it_was_and_is_idempotent():
    for text in (V0, V1):
        parsed = parse(text, NET)
        before = parsed.message.SerializeToString()
        once = upgrade(parsed)
        assert parsed.message.SerializeToString() == before
        again = upgrade(once)
        assert again is once


def test_both_formats_in_one_net_are_refused_with_both_places_and_both_ways_out():
    text = 'layer { name: "a" type: "ReLU" }\nlayers { name: "b" type: RELU }'
    with pytest.raises(
        PrototxtError, match="'layer' \\(first: t:1\\) and 'layers' \\(first: t:2"
    ) as e:
        upgraded(text)
    assert e.value.where == "t:2"
    assert "all as 'layer'" in e.value.fix
    assert "or all as 'layers'" in e.value.fix


def test_every_old_type_has_a_current_one():
    v1 = set(messages.V1LayerParameter.LayerType.keys())
    assert v1 == set(V1_TYPES)
    assert set(V0_TYPES.values()) <= v1


def test_transformations_move_in_v1_data_layers_only():
    old = (
        'layers { type: %s %s { scale: 2 mean_file: "m" crop_size: 3 mirror: true batch_size: 1 } }'
    )
    for v1, name in (
        ("DATA", "data"),
        ("IMAGE_DATA", "image_data"),
        ("WINDOW_DATA", "window_data"),
    ):
        layer = net(old % (v1, f"{name}_param")).layer[0]
        transform = layer.transform_param
        moved = (transform.scale, transform.mean_file, transform.crop_size, transform.mirror)
        assert moved == (2, "m", 3, True)
        assert str(getattr(layer, f"{name}_param")).strip() == "batch_size: 1"
    kept = 'layer { type: "Data" data_param { scale: 2 } }'
    assert net(kept) == current(kept)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('input: "a"\ninput_dim: 1 input_dim: 2 input_dim: 3', "t:2"),
        ('input: "a" input: "b"\ninput_shape { dim: 1 }', "t:2"),
    ],
)
def test_inputs_without_a_shape_each_are_refused(text, where):
    with pytest.raises(PrototxtError, match="input but") as caught:
        upgraded(text)
    assert caught.value.where == where


def test_input_shape_wins_over_input_dim_and_inputs_without_shapes_are_dropped():
    shaped = net('input: "a" input_shape { dim: 5 } input_dim: 1')
    assert list(shaped.layer[0].input_param.shape[0].dim) == [5]
    assert net('input: "a" layer { name: "x" }') == current('layer { name: "x" }')


def test_batch_norm_with_three_params_gets_rates_of_zero():
    text = 'layer { type: "BatchNorm" %s }'
    zero = text % ("param { lr_mult: 0 decay_mult: 0 }" * 3)
    assert net(text % ("param { lr_mult: 1 }" + "param {}" * 2)) == current(zero)
    for untouched in (text % "", text % "param { lr_mult: 1 }", zero):
        assert net(untouched) == current(untouched)


# Solvers


def solver(text):
    return upgrade_solver(parse(text, messages.SolverParameter, name="t"))


@pytest.mark.parametrize("new", ["SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"])
def test_solver_type_becomes_type(new):
    message = solver(f"solver_type: {new.upper()}").message
    assert (message.type, message.HasField("solver_type")) == (new, False)


def test_type_and_solver_type_together_are_refused_with_both_places():
    with pytest.raises(PrototxtError, match=r"both type \(at t:1\) and solver_type") as caught:
        solver('type: "Adam"\nsolver_type: ADAM')
    assert caught.value.where == "t:2"


def test_nets_inside_a_solver_are_upgraded_with_their_lines():
    parsed = solver(
        'net_param { input: "x" input_dim: [1, 2, 3, 4]\n layers { type: RELU } }\n'
        'test_net_param { layer { type: "ReLU" } }\ntest_net_param {\n layers { type: TANH\n} }'
    )
    assert [layer.type for layer in parsed.message.net_param.layer] == ["Input", "ReLU"]
    assert [n.layer[0].type for n in parsed.message.test_net_param] == ["ReLU", "TanH"]
    places = parsed.source_map
    assert places.where(("net_param", "layer", 1)) == "t:2"
    assert places.where(("test_net_param", 1, "layer", 0)) == "t:5"
    assert places.under(("test_net_param", 1)).where(("layer", 0)) == "t:5"
    assert len(parsed.warnings) == 2


def test_net_without_places_is_upgraded_too():
    assert upgrade_net(parse(V1, NET).message) == net(V1)
    with pytest.raises(PrototxtError) as caught:
        upgrade_net(current("layer {} layers {}"), "weights.caffemodel")
    assert caught.value.where == "weights.caffemodel"
