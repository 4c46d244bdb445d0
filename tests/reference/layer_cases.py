"""The layer cases that the reference Caffe is asked about: a table of (type, name, inputs, text).

Inputs are made from a seed of their own (the CRC of `type/name`), so that adding a case changes no
other. Values are rounded to multiples of 1/256: exact in float32, small when compressed.
Needs Python 3.8 and numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Draw = Callable[[np.random.RandomState], np.ndarray]
    Grad = str | tuple[bool, ...]

__all__ = ["CASES", "LayerCase", "normal"]


@dataclass
class LayerCase:
    """One question to the reference.

    steps   inputs of each forward/backward pass
    grad    "force" (force_backward), "none" (no backward pass), or one flag per bottom saying
            which bottoms ask for a gradient
    params  None draws random ones, "init" leaves what the fillers made
    extra   arrays fed by other means (data layers)
    """

    type: str
    name: str
    steps: list[Sequence[Draw]]
    text: str
    tops: Sequence[str]
    phase: str = "TRAIN"
    grad: Grad = "force"
    params: str | Sequence[Draw] | None = None
    extra: dict[str, Draw] = field(default_factory=dict)


CASES: list[LayerCase] = []


def grid(values: np.ndarray) -> np.ndarray:
    """Round to multiples of 1/256."""
    return (np.round(np.asarray(values) * 256) / 256).astype(np.float32)


def normal(*shape: int, scale: float = 1.0) -> Draw:
    """Normal values."""
    return lambda rng: grid(rng.normal(scale=scale, size=shape))


def uniform(low: float, high: float, *shape: int) -> Draw:
    """Uniform values in [low, high]."""
    return lambda rng: grid(rng.uniform(low, high, size=shape))


def few(*shape: int) -> Draw:
    """Integers -2..2: many ties, many zeros."""
    return lambda rng: rng.randint(-2, 3, size=shape).astype(np.float32)


def labels(classes: int, *shape: int, ignore: int | None = None) -> Draw:
    """Class numbers, about a quarter of them replaced by `ignore`; at least one of each kind."""

    def draw(rng: np.random.RandomState) -> np.ndarray:
        values = rng.randint(0, classes, size=shape).astype(np.float32)
        if ignore is not None:
            values.flat[rng.permutation(values.size)[: max(1, values.size // 4)]] = ignore
        return values

    return draw


def values(data: object) -> Draw:
    """Exactly these values."""
    return lambda _rng: np.asarray(data, dtype=np.float32)


def case(
    type: str,  # noqa: A002 (Caffe's word)
    name: str,
    bottoms: Sequence[Draw],
    text: str = "",
    *,
    tops: int | Sequence[str] = 1,
    more: Sequence[Sequence[Draw]] = (),
    **options: object,
) -> None:
    """Add a case; `more` holds the inputs of further passes."""
    names = [f"t{i}" for i in range(tops)] if isinstance(tops, int) else list(tops)
    CASES.append(LayerCase(type, name, [bottoms, *more], text, names, **options))  # type: ignore[arg-type]


def convolutions() -> None:
    """Convolution, Deconvolution, Im2col: one parameter text serves all three."""
    x = normal(2, 4, 7, 6)
    texts = {
        "k3": "kernel_size: 3",
        "k3_s2_p1": "kernel_size: 3 stride: 2 pad: 1",
        "k1": "kernel_size: 1",
        "k1_s2": "kernel_size: 1 stride: 2",
        "asymmetric_hw": "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0",
        "asymmetric_list": "kernel_size: 3 kernel_size: 1 pad: 1 pad: 0 stride: 1 stride: 2",
        "dilation2": "kernel_size: 3 dilation: 2 pad: 2",
        "dilation_list": "kernel_size: 3 kernel_size: 2 dilation: 1 dilation: 3 pad: 1",
        "pad_beyond_kernel": "kernel_size: 2 pad: 3 stride: 3",
    }
    for name, text in texts.items():
        for kind in ("Convolution", "Deconvolution"):
            case(kind, name, [x], f"convolution_param {{ num_output: 6 {text} }}")
        case("Im2col", name, [normal(2, 2, 7, 6)], f"convolution_param {{ {text} }}")
    for kind in ("Convolution", "Deconvolution"):
        p = "convolution_param { num_output: 6 kernel_size: 3 "
        case(kind, "group2", [x], p + "group: 2 pad: 1 }")
        case(kind, "no_bias", [x], p + "bias_term: false }")
        case(kind, "force_nd", [x], p + "force_nd_im2col: true pad: 1 }")
        case(kind, "two_bottoms", [x, normal(2, 4, 7, 6)], p + "}", tops=2)
        case(kind, "two_bottoms_one_gradient", [x, x], p + "}", tops=2, grad=(False, True))
        case(kind, "no_bottom_gradient", [x], p + "}", grad=(False,))
        case(kind, "one_dimension", [normal(2, 3, 9)], p + "stride: 2 pad: 1 }")
        case(
            kind,
            "three_dimensions",
            [normal(2, 2, 4, 5, 3)],
            "convolution_param { num_output: 3 kernel_size: 3 kernel_size: 2 kernel_size: 2 "
            "pad: 1 stride: 1 stride: 2 stride: 1 }",
        )
        case(kind, "axis2", [normal(2, 2, 4, 5, 5)], p + "axis: 2 }")
        case(kind, "reshaped", [x], p + "stride: 2 }", more=[[normal(3, 4, 5, 8)], [x]])
        frozen = "param { lr_mult: 0 } param { lr_mult: 1 }"
        case(kind, "frozen_weight", [x], frozen + p + "}", grad=(True,))
    depthwise = "convolution_param { num_output: 4 group: 4 kernel_size: 3 pad: 1 }"
    case("Convolution", "depthwise", [x], depthwise)
    case("Convolution", "window_beyond_image", [normal(1, 2, 2, 2)],
         "convolution_param { num_output: 2 kernel_size: 3 stride: 2 }")  # fmt: skip


def pooling() -> None:
    """Pooling and SPP."""
    x = normal(2, 3, 7, 6)
    texts = {
        "k2_s2": "kernel_size: 2 stride: 2",
        "k3_s2": "kernel_size: 3 stride: 2",
        "k3_s2_floor": "kernel_size: 3 stride: 2 round_mode: FLOOR",
        "k3_s1_p1": "kernel_size: 3 pad: 1",
        "k3_s2_p1": "kernel_size: 3 stride: 2 pad: 1",
        "k3_s2_p1_floor": "kernel_size: 3 stride: 2 pad: 1 round_mode: FLOOR",
        "hw": "kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 2 pad_w: 0",
        "k5_s3_p2": "kernel_size: 5 stride: 3 pad: 2",
        "global": "global_pooling: true",
        "gaps": "kernel_size: 1 stride: 3 round_mode: FLOOR",
    }
    for method in ("MAX", "AVE"):
        for name, text in texts.items():
            body = f"pooling_param {{ pool: {method} {text} }}"
            case("Pooling", f"{method.lower()}_{name}", [x], body)
        last = f"pooling_param {{ pool: {method} kernel_size: 2 stride: 2 pad: 1 }}"
        case("Pooling", f"{method.lower()}_last_window_dropped", [normal(1, 1, 3, 3)], last)
        wide = f"pooling_param {{ pool: {method} kernel_size: 3 stride: 2 }}"
        case("Pooling", f"{method.lower()}_window_beyond_image", [normal(1, 2, 2, 2)], wide)
        case("Pooling", f"{method.lower()}_reshaped", [x], wide, more=[[normal(1, 3, 5, 8)]])
        whole = f"pooling_param {{ pool: {method} global_pooling: true }}"
        case(
            "Pooling", f"{method.lower()}_global_reshaped", [x], whole, more=[[normal(1, 3, 4, 9)]]
        )
        spp = f"spp_param {{ pool: {method} pyramid_height: 3 }}"
        case("SPP", f"{method.lower()}_3", [normal(2, 2, 9, 8)], spp)
    case("SPP", "one_level", [x], "spp_param { pyramid_height: 1 }")
    mask = "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }"
    case("Pooling", "max_mask", [x], mask, tops=2)
    case("Pooling", "max_ties", [few(2, 2, 6, 6)], mask)
    case("Pooling", "max_ties_mask", [few(2, 2, 6, 6)], mask, tops=2)


def normalizations() -> None:
    """LRN, BatchNorm, MVN."""
    x = normal(2, 7, 5, 4)
    texts = {
        "across": "local_size: 5 alpha: 0.1 beta: 0.75",
        "across_k2": "local_size: 3 alpha: 0.5 beta: 0.5 k: 2",
        "across_wider_than_channels": "local_size: 17 alpha: 2 beta: 0.75",
        "across_default": "",
        "within": "local_size: 3 alpha: 0.1 beta: 0.75 norm_region: WITHIN_CHANNEL",
        "within_k_ignored": "local_size: 5 alpha: 1 beta: 0.5 k: 3 norm_region: WITHIN_CHANNEL",
    }
    for name, text in texts.items():
        case("LRN", name, [x], f"lrn_param {{ {text} }}")
    case("LRN", "reshaped", [x], "lrn_param { alpha: 0.1 }", more=[[normal(1, 7, 3, 6)]])
    stats = [values([1.5, -2.0, 0.25]), values([3.0, 0.5, 2.0]), values([2.5])]
    b = normal(4, 3, 3, 2, scale=2)
    steps = [[normal(4, 3, 3, 2, scale=3)], [normal(2, 3, 2, 2)]]
    for phase in ("TRAIN", "TEST"):
        low = phase.lower()
        case("BatchNorm", f"{low}_three_passes", [b], phase=phase, params=stats, more=steps)
        case("BatchNorm", f"{low}_untrained", [b], phase=phase, params="init", more=steps)
        for use in ("true", "false"):
            text = f"batch_norm_param {{ use_global_stats: {use} }}"
            name = f"{low}_global_{use}"
            case("BatchNorm", name, [b], text, phase=phase, params=stats, more=steps)
    text = "batch_norm_param { moving_average_fraction: 0.5 eps: 0.1 }"
    case("BatchNorm", "fraction_eps", [b], text, params=stats, more=steps)
    case("BatchNorm", "two_axes", [normal(6, 3)], params=stats)
    case("BatchNorm", "five_axes", [normal(2, 3, 2, 2, 2)], params=stats)
    case("BatchNorm", "in_place", [b], params=stats, tops=["b0"], more=steps)
    case("BatchNorm", "one_value_per_channel", [normal(1, 3, 1, 1)], params=stats)
    for name, text in {
        "default": "",
        "across": "across_channels: true",
        "mean_only": "normalize_variance: false",
        "across_mean_only": "across_channels: true normalize_variance: false eps: 0.01",
    }.items():
        case("MVN", name, [normal(2, 3, 4, 2)], f"mvn_param {{ {text} }}")


def products() -> None:
    """InnerProduct, Embed, Scale, Bias."""
    x = normal(3, 2, 4, 2)
    for name, text in {
        "default": "",
        "no_bias": "bias_term: false",
        "transpose": "transpose: true",
        "axis2": "axis: 2",
        "axis_last_transpose": "axis: -1 transpose: true",
        "axis0": "axis: 0",
    }.items():
        case("InnerProduct", name, [x], f"inner_product_param {{ num_output: 5 {text} }}")
    text = "inner_product_param { num_output: 5 }"
    case("InnerProduct", "reshaped", [x], text, more=[[normal(5, 4, 4, 1)]])
    case("InnerProduct", "no_bottom_gradient", [x], text, grad=(False,))
    text = "embed_param { num_output: 3 input_dim: 6 }"
    case("Embed", "repeats", [labels(6, 7)], text, grad=(False,))
    case("Embed", "two_axes", [labels(6, 3, 4)], text, grad=(False,), more=[[labels(6, 3, 4)]])
    case("Embed", "no_bias", [labels(6, 2, 3)], text.replace(" }", " bias_term: false }"),
         grad=(False,))  # fmt: skip
    x = normal(2, 3, 4, 2)
    shapes = {
        "default": ("", (3,)),
        "axis0": ("axis: 0", (2,)),
        "axis0_three": ("axis: 0 num_axes: 3", (2, 3, 4)),
        "axis_negative": ("axis: -2 num_axes: 2", (4, 2)),
        "to_the_end": ("axis: 1 num_axes: -1", (3, 4, 2)),
        "all": ("axis: 0 num_axes: -1", (2, 3, 4, 2)),
        "scalar": ("num_axes: 0", ()),
    }
    for name, (text, shape) in shapes.items():
        axis = text.split("num_axes")[0]
        two = [x, normal(*shape)]
        case("Scale", name, [x], f"scale_param {{ {text} }}")
        case("Scale", f"{name}_bias", [x], f"scale_param {{ {text} bias_term: true }}")
        case("Scale", f"{name}_two_bottoms", two, f"scale_param {{ {axis} }}")
        case("Scale", f"{name}_two_bottoms_bias", two, f"scale_param {{ {axis} bias_term: true }}")
        case("Bias", name, [x], f"bias_param {{ {text} }}")
        case("Bias", f"{name}_two_bottoms", two, f"bias_param {{ {axis} }}")
    for flags, name in (((True, False), "first"), ((False, True), "second")):
        two = [x, normal(3)]
        case("Scale", f"only_{name}_gradient", two, grad=flags)
        case("Bias", f"only_{name}_gradient", two, grad=flags)
    case("Scale", "in_place", [x], "scale_param { bias_term: true }", tops=["b0"])
    case("Scale", "in_place_two_bottoms", [x, normal(3)], tops=["b0"])
    case("Bias", "in_place", [x], tops=["b0"])
    case("Scale", "init", [x], "scale_param { bias_term: true }", params="init")
    case("Scale", "empty_filler", [x], "scale_param { filler {} }", params="init")
    case("Scale", "accumulates", [x], "scale_param { bias_term: true }", more=[[x], [x]])


def activations() -> None:
    """Layers that work value by value, with zeros, large values and in-place forms."""
    edge = values([[-100, -20, -1, -0.5, -0.0, 0.0, 0.5, 1, 20, 100]])
    texts = {
        "ReLU": {"default": "", "slope": "relu_param { negative_slope: 0.25 }"},
        "ELU": {"default": "", "alpha": "elu_param { alpha: 0.5 }"},
        "Sigmoid": {"default": ""},
        "TanH": {"default": ""},
        "BNLL": {"default": ""},
        "AbsVal": {"default": ""},
        "Swish": {"default": "", "beta": "swish_param { beta: 2 }"},
        "Threshold": {"default": "", "half": "threshold_param { threshold: 0.5 }"},
        "Exp": {
            "default": "",
            "base2": "exp_param { base: 2 scale: -0.5 shift: 0.25 }",
            "base_half": "exp_param { base: 0.5 shift: 1 }",
        },
        "Log": {
            "default": "",
            "base10": "log_param { base: 10 scale: 3 shift: 0.5 }",
        },
        "Power": {
            "default": "",
            "square": "power_param { power: 2 scale: 0.5 shift: -1 }",
            "cube_no_shift": "power_param { power: 3 scale: -0.5 }",
            "root": "power_param { power: 0.5 scale: 2 shift: 0.25 }",
            "inverse": "power_param { power: -1 scale: 1 shift: 3 }",
            "constant": "power_param { power: 0 scale: 2 shift: 3 }",
            "no_scale": "power_param { power: 3 scale: 0 shift: 2 }",
            "affine": "power_param { scale: -2 shift: 1 }",
        },
    }
    positive = {"Log", "Power"}
    for kind, table in texts.items():
        x = uniform(0.25, 3, 2, 3, 4, 2) if kind in positive else normal(2, 3, 4, 2, scale=2)
        grad: Grad = "none" if kind == "Threshold" else "force"
        for name, text in table.items():
            case(kind, name, [x], text, grad=grad)
            if kind not in positive | {"Exp"}:
                case(kind, f"{name}_extreme", [edge], text, grad=grad)
    for kind in ("ReLU", "ELU", "Sigmoid", "TanH", "Exp", "Swish"):
        case(kind, "in_place", [normal(2, 3, 4)], tops=["b0"])
    x = normal(2, 3, 4, 2)
    case("PReLU", "channels", [x])
    case("PReLU", "shared", [x], "prelu_param { channel_shared: true }")
    case("PReLU", "init", [x], params="init")
    case("PReLU", "in_place", [x], tops=["b0"], more=[[x]])
    case("PReLU", "two_axes", [normal(4, 5)])
    case("PReLU", "zeros", [few(2, 3, 4)])
    case("Dropout", "test", [x], "dropout_param { dropout_ratio: 0.3 }", phase="TEST")
    case("Dropout", "test_in_place", [x], phase="TEST", tops=["b0"])


convolutions()
pooling()
normalizations()
products()
activations()
