"""Further rows of the table in layer_cases.py: shapes, losses, recurrent layers, data layers."""

from __future__ import annotations

from layer_cases import CASES, case, few, labels, normal, uniform, values

__all__ = ["CASES"]


def eltwise() -> None:
    """Eltwise: sums, products and maxima of several bottoms."""
    two, three = [normal(2, 3, 4), normal(2, 3, 4)], [normal(2, 5)] * 3
    ties = [few(2, 3, 4)] * 3
    nonzero = [uniform(0.5, 2, 2, 3, 4)] * 3
    case("Eltwise", "sum", two)
    case("Eltwise", "sum_coeff", three, "eltwise_param { coeff: 1 coeff: -1 coeff: 0.5 }")
    case("Eltwise", "product", three, "eltwise_param { operation: PROD }")
    case("Eltwise", "product_with_zeros", ties, "eltwise_param { operation: PROD }")
    unstable = "eltwise_param { operation: PROD stable_prod_grad: false }"
    case("Eltwise", "product_unstable", nonzero, unstable)
    case("Eltwise", "max", three, "eltwise_param { operation: MAX }")
    case("Eltwise", "max_ties", ties, "eltwise_param { operation: MAX }")
    case("Eltwise", "max_coeff_ignored", two, "eltwise_param { operation: MAX coeff: 2 coeff: 3 }")
    case("Eltwise", "one_gradient", two, "eltwise_param { coeff: 2 coeff: 3 }", grad=(False, True))
    max_text = "eltwise_param { operation: MAX }"
    case("Eltwise", "max_one_gradient", two, max_text, grad=(True, False))


def shapes() -> None:
    """Layers that move values about."""
    a, b, c = normal(2, 3, 4), normal(2, 1, 4), normal(2, 2, 4)
    case("Concat", "default", [a, b, c])
    case("Concat", "axis0", [normal(1, 3), normal(2, 3)], "concat_param { axis: 0 }")
    case("Concat", "axis_last", [a, normal(2, 3, 1)], "concat_param { axis: -1 }")
    case("Concat", "concat_dim", [normal(1, 3), normal(2, 3)], "concat_param { concat_dim: 0 }")
    case("Concat", "one_bottom", [a])
    case("Concat", "one_gradient", [a, b], grad=(False, True))
    x = normal(2, 6, 4)
    case("Slice", "even", [x], tops=3)
    case("Slice", "points", [x], "slice_param { slice_point: 1 slice_point: 4 }", tops=3)
    case("Slice", "axis_last", [x], "slice_param { axis: -1 slice_point: 3 }", tops=2)
    case("Slice", "slice_dim", [x], "slice_param { slice_dim: 0 }", tops=2)
    case("Slice", "one_top", [x])
    case("Split", "two", [x], tops=2)
    case("Split", "three", [x], tops=3)
    case("Silence", "one", [x], tops=0)
    case("Silence", "two", [x, a], tops=0)
    y = normal(2, 3, 4, 5)
    case("Flatten", "default", [y])
    case("Flatten", "axis_end", [y], "flatten_param { axis: 2 }")
    case("Flatten", "to_end_axis", [y], "flatten_param { axis: 0 end_axis: 1 }")
    case("Flatten", "negative", [y], "flatten_param { axis: -3 end_axis: -2 }")
    for name, dims, rest in (
        ("copy_infer", (0, -1), ""),
        ("literal", (6, 20), ""),
        ("infer_first", (-1, 5), ""),
        ("axis1", (-1,), "axis: 1"),
        ("axis_range", (2, 2, 3), "axis: 1 num_axes: 2"),
        ("insert", (1, 1), "axis: 1 num_axes: 0"),
        ("append", (1,), "axis: -1"),
        ("axis_negative", (2, -1), "axis: -3"),
        ("copy_inside_range", (0, 2, -1), "axis: 1"),
        ("flatten_all", (-1,), ""),
    ):
        text = " ".join(f"dim: {dim}" for dim in dims)
        case("Reshape", name, [y], f"reshape_param {{ shape {{ {text} }} {rest} }}")
    case("Tile", "default", [a], "tile_param { tiles: 3 }")
    case("Tile", "axis_last", [a], "tile_param { axis: -1 tiles: 2 }")
    case("Tile", "axis0", [a], "tile_param { axis: 0 tiles: 2 }")
    for operation in ("SUM", "ASUM", "SUMSQ", "MEAN"):
        p = f"reduction_param {{ operation: {operation} "
        low = operation.lower()
        case("Reduction", low, [a], p + "}")
        case("Reduction", f"{low}_axis1_coeff", [few(2, 3, 4)], p + "axis: 1 coeff: -0.5 }")
        case("Reduction", f"{low}_axis_last", [a], p + "axis: -1 }")
    case("Crop", "default", [y, normal(1, 1, 2, 3)])
    case("Crop", "offset", [y, normal(1, 1, 2, 3)], "crop_param { offset: 1 }")
    case("Crop", "offsets", [y, normal(1, 2, 2, 3)],
         "crop_param { axis: 1 offset: 1 offset: 2 offset: 0 }")  # fmt: skip
    case("Crop", "axis_last", [y, normal(1, 1, 1, 3)], "crop_param { axis: -1 offset: 2 }")
    selected = [normal(4, 3), normal(4, 2, 2), values([1, 0, 0, 2])]
    case("Filter", "some", selected, tops=2, grad=(True, True, False))
    case("Filter", "all", [normal(3, 2), values([1, 1, 1])], grad=(True, False))
    case("Filter", "none", [normal(3, 2), values([0, 0, 0])], grad="none")
    index = values([2, 0, 2, 1, 2])
    case("BatchReindex", "repeats", [normal(3, 2, 2), index], grad=(True, False))
    case("Parameter", "two_axes", [], "parameter_param { shape { dim: 2 dim: 3 } }")
    for name, text in {
        "default": "",
        "top_k": "top_k: 2",
        "max_value": "out_max_val: true top_k: 3",
        "axis": "axis: 1 top_k: 2",
        "axis_max_value": "axis: -1 out_max_val: true",
    }.items():
        case("ArgMax", name, [normal(2, 3, 4)], f"argmax_param {{ {text} }}", grad="none")
        case("ArgMax", f"{name}_ties", [few(2, 3, 4)], f"argmax_param {{ {text} }}", grad="none")


def losses() -> None:
    """Softmax, losses and Accuracy."""
    x = normal(3, 4, 2, 2)
    case("Softmax", "default", [x])
    case("Softmax", "axis0", [x], "softmax_param { axis: 0 }")
    case("Softmax", "axis_last", [x], "softmax_param { axis: -1 }")
    case("Softmax", "two_axes", [normal(3, 5)])
    case("Softmax", "large", [normal(3, 5, scale=200)])
    case("Softmax", "in_place", [x], tops=["b0"])
    two = [normal(6, 5), labels(5, 6)]
    spatial = [normal(3, 4, 2, 3), labels(4, 3, 1, 2, 3)]
    ignored = [normal(3, 4, 2, 3), labels(4, 3, 2, 3, ignore=255)]
    case("SoftmaxWithLoss", "default", two)
    case("SoftmaxWithLoss", "weighted", two, "loss_weight: 0.7")
    case("SoftmaxWithLoss", "spatial", spatial)
    case("SoftmaxWithLoss", "axis_last", [normal(3, 2, 4), labels(4, 3, 2)],
         "softmax_param { axis: -1 }")  # fmt: skip
    case("SoftmaxWithLoss", "certain_and_wrong", [values([[200, 0], [0, 200]]), values([1, 1])])
    case("SoftmaxWithLoss", "ignore_zero", [normal(4, 3), labels(3, 4, ignore=0)],
         "loss_param { ignore_label: 0 }")  # fmt: skip
    case("SoftmaxWithLoss", "ignore_all", [normal(2, 3), values([-1, -1])],
         "loss_param { ignore_label: -1 }")  # fmt: skip
    for normalization in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
        text = f"loss_param {{ ignore_label: 255 normalization: {normalization} }}"
        case("SoftmaxWithLoss", f"ignore_{normalization.lower()}", ignored, text)
    for flag in ("true", "false"):
        text = f"loss_param {{ ignore_label: 255 normalize: {flag} }}"
        case("SoftmaxWithLoss", f"normalize_{flag}", ignored, text)
    binary = [normal(3, 4, 2, scale=2), labels(2, 3, 4, 2)]
    unknown = [normal(3, 4, 2, scale=2), labels(2, 3, 4, 2, ignore=-1)]
    kind = "SigmoidCrossEntropyLoss"
    case(kind, "default", binary)
    case(kind, "real_targets", [normal(3, 4), uniform(0, 1, 3, 4)], "loss_weight: 0.5")
    case(kind, "extreme", [values([[-100, 100], [100, -100]]), values([[0, 1], [0, 1]])])
    for normalization in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
        text = f"loss_param {{ ignore_label: -1 normalization: {normalization} }}"
        case(kind, f"ignore_{normalization.lower()}", unknown, text)
    for flag in ("true", "false"):
        case(
            kind,
            f"normalize_{flag}",
            unknown,
            f"loss_param {{ ignore_label: -1 normalize: {flag} }}",
        )
    pair = [normal(3, 2, 2), normal(3, 2, 2)]
    case("EuclideanLoss", "both", pair)
    case("EuclideanLoss", "first", pair, grad=(True, False))
    case("EuclideanLoss", "second", pair, "loss_weight: 2", grad=(False, True))
    case("EuclideanLoss", "same_count", [normal(3, 4), normal(3, 2, 2)])
    case("HingeLoss", "default", two)
    case("HingeLoss", "l2", two, "hinge_loss_param { norm: L2 } loss_weight: 0.5")
    hit = [uniform(0.01, 1, 4, 3), labels(3, 4)]
    case("MultinomialLogisticLoss", "default", hit)
    case(
        "MultinomialLogisticLoss",
        "zero_probability",
        [values([[0, 1], [0.5, 0.5]]), values([0, 1])],
    )
    h = uniform(0, 1, 1, 1, 4, 4)
    for name, text, bottoms in (
        ("default", "", [normal(3, 4), labels(4, 3), h]),
        ("spatial", "", [normal(3, 4, 2), labels(4, 3, 2), h]),
        ("ignored", "loss_param { ignore_label: 0 }", [normal(3, 4, 2), labels(4, 3, 2), h]),
        ("axis_last", "infogain_loss_param { axis: -1 }", [normal(3, 2, 4), labels(4, 3, 2), h]),
    ):
        case("InfogainLoss", name, bottoms, text, grad=(True, False, False))
    case("InfogainLoss", "probabilities", [normal(3, 4), labels(4, 3), h],
         "loss_weight: 1 loss_weight: 0", tops=2, grad=(True, False, False))  # fmt: skip
    siamese = [normal(5, 3, scale=0.5), normal(5, 3, scale=0.5), labels(2, 5)]
    case("ContrastiveLoss", "default", siamese)
    text = "contrastive_loss_param { margin: 2 legacy_version: true }"
    case("ContrastiveLoss", "legacy", siamese, text)
    for name, text, bottoms, tops in (
        ("default", "", [normal(6, 4), labels(4, 6)], 1),
        ("top2", "top_k: 2", [normal(6, 4), labels(4, 6)], 1),
        ("ties", "", [few(8, 3), labels(3, 8)], 1),
        ("ties_top2", "top_k: 2", [few(8, 4), labels(4, 8)], 1),
        ("constant", "", [values([[1.0] * 3] * 4), labels(3, 4)], 1),
        ("ignored", "ignore_label: 1", [normal(8, 3), labels(3, 8)], 1),
        ("all_ignored", "ignore_label: 1", [normal(2, 3), values([1, 1])], 1),
        ("per_class", "", [normal(9, 3), labels(3, 9)], 2),
        ("per_class_absent", "", [normal(4, 3), values([0, 0, 2, 2])], 2),
        ("per_class_ignored_top2", "ignore_label: 0 top_k: 2", [normal(9, 4), labels(4, 9)], 2),
        ("spatial", "", [normal(3, 4, 2, 3), labels(4, 3, 2, 3)], 1),
        ("axis_last", "axis: -1", [normal(3, 2, 4), labels(4, 3, 2)], 1),
    ):
        case("Accuracy", name, bottoms, f"accuracy_param {{ {text} }}", tops=tops,
             grad="none", phase="TEST")  # fmt: skip


def recurrent() -> None:
    """LSTM, RNN, LSTMUnit: T = 4 steps, N = 3 streams, I = 2 inputs, D = 5 outputs."""
    x = normal(4, 3, 2)
    whole = values([[0, 0, 0]] + [[1, 1, 1]] * 3)
    carried = values([[1, 1, 1]] * 4)
    mixed = values([[0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]])
    partial = values([[0, 1, 0.5], [1, 0.25, 1], [1, 1, 0.75], [1, 1, 1]])
    hidden = normal(1, 3, 5)
    for kind, states in (("LSTM", 2), ("RNN", 1)):
        text = "recurrent_param { num_output: 5 }"
        exposed = "recurrent_param { num_output: 5 expose_hidden: true }"
        case(kind, "one_sequence", [x, whole], text)
        case(kind, "mixed_cont", [x, mixed], text)
        case(kind, "fractional_cont", [x, partial], text)
        case(kind, "carried_state", [x, mixed], text, more=[[x, carried], [x, mixed]])
        case(kind, "static", [x, mixed, normal(3, 4)], text)
        case(kind, "input_of_four_axes", [normal(4, 3, 2, 2), mixed], text)
        case(
            kind,
            "fewer_streams",
            [x, whole],
            text,
            more=[[normal(4, 2, 2), values([[0, 0]] + [[1, 1]] * 3)]],
        )
        start = [hidden] * states
        case(
            kind,
            "expose_hidden",
            [x, mixed, *start],
            exposed,
            tops=1 + states,
            more=[[x, carried, *start]],
        )
        case(
            kind, "expose_hidden_static", [x, mixed, normal(3, 4), *start], exposed, tops=1 + states
        )
        case(kind, "no_bottom_gradient", [x, mixed], text, grad=(False, False))
    unit = [hidden, normal(1, 3, 20), values([[1, 0, 0.5]])]
    case("LSTMUnit", "both", unit, tops=2)
    case("LSTMUnit", "only_gates", unit, tops=2, grad=(False, True, False))
    case("LSTMUnit", "only_cell", unit, tops=2, grad=(True, False, False))
    large = [hidden, normal(1, 3, 20, scale=60), values([[1, 0, 1]])]
    case("LSTMUnit", "saturated", large, tops=2)


def data_layers() -> None:
    """Layers without bottoms; `extra` holds what feeds them."""
    quiet = {"grad": "none"}
    case("Input", "one", [], "input_param { shape { dim: 2 dim: 3 } }", **quiet)
    case("Input", "shape_for_all", [], "input_param { shape { dim: 2 } }", tops=2, **quiet)
    case("Input", "shape_each", [], "input_param { shape { dim: 2 dim: 1 } shape { dim: 5 } }",
         tops=2, **quiet)  # fmt: skip
    case("DummyData", "default_filler", [], "dummy_data_param { shape { dim: 2 dim: 3 } }", **quiet)
    constant = 'data_filler { type: "constant" value: 1.5 }'
    case("DummyData", "constant_for_all", [],
         f"dummy_data_param {{ shape {{ dim: 2 dim: 3 }} shape {{ dim: 4 }} {constant} }}",
         tops=2, **quiet)  # fmt: skip
    text = f"num: 2 channels: 3 height: 1 width: 4 {constant}"
    case("DummyData", "legacy_shape", [], f"dummy_data_param {{ {text} }}", **quiet)
    text = "num: 2 num: 1 channels: 3 channels: 2 height: 1 height: 1 width: 4 width: 5"
    case("DummyData", "legacy_each", [], f"dummy_data_param {{ {text} }}", tops=2, **quiet)
    case("MemoryData", "cycles", [],
         "memory_data_param { batch_size: 2 channels: 3 height: 2 width: 2 }",
         tops=2, more=[[], [], []],
         extra={"data": normal(6, 3, 2, 2), "label": labels(5, 6)}, **quiet)  # fmt: skip
    case("HDF5Data", "across_files", [],
         'hdf5_data_param { source: "SOURCE" batch_size: 3 }',
         tops=["data", "label"], more=[[], [], [], []],
         extra={"0/data": normal(4, 2, 2), "0/label": labels(3, 4),
                "1/data": normal(3, 2, 2), "1/label": labels(3, 3)}, **quiet)  # fmt: skip
    case("HDF5Data", "one_axis", [],
         'hdf5_data_param { source: "SOURCE" batch_size: 4 }',
         tops=["target"], more=[[]], extra={"0/target": normal(6)}, **quiet)  # fmt: skip


eltwise()
shapes()
losses()
recurrent()
data_layers()
