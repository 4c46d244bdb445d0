"""Batch-mode BatchNorm, composed of other layers of the reference Caffe.

The wheel that serves as reference was built for inference: its BatchNorm::Forward_cpu computes no
batch statistics (compiled code and results agree on that), only the use of given ones is Caffe's.
So batch mode is recorded from a net of layers that are intact:

    mean = Reduction(MEAN) x    centred = Bias(x, -mean)    var = Reduction(MEAN) centred^2
    y = Scale(centred, (var + eps)^-0.5)

whose backward pass is Caffe's own chain rule. The running statistics follow Caffe's published rule:
b2 <- f b2 + 1, b0 <- f b0 + mean, b1 <- f b1 + var m/(m - 1), m values per channel.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

__all__ = ["batch_step", "uses_batch"]

NET = """
name: "batch norm"  force_backward: true
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: {c} dim: {m} }} }} }}
layer {{ name: "mean" type: "Reduction" bottom: "x" top: "mean"
  reduction_param {{ operation: MEAN axis: 1 }} }}
layer {{ name: "minus" type: "Power" bottom: "mean" top: "minus" power_param {{ scale: -1 }} }}
layer {{ name: "centred" type: "Bias" bottom: "x" bottom: "minus" top: "centred"
  bias_param {{ axis: 0 }} }}
layer {{ name: "square" type: "Power" bottom: "centred" top: "square" power_param {{ power: 2 }} }}
layer {{ name: "var" type: "Reduction" bottom: "square" top: "var"
  reduction_param {{ operation: MEAN axis: 1 }} }}
layer {{ name: "factor" type: "Power" bottom: "var" top: "factor"
  power_param {{ power: -0.5 shift: {eps} }} }}
layer {{ name: "y" type: "Scale" bottom: "centred" bottom: "factor" top: "y"
  scale_param {{ axis: 0 }} }}
"""


def parameter(layer_text: str) -> caffe_pb2.BatchNormParameter:
    """batch_norm_param of a net text that holds one layer."""
    net = text_format.Parse(layer_text, caffe_pb2.NetParameter())
    return net.layer[0].batch_norm_param


def uses_batch(layer_text: str, phase: str) -> bool:
    """Whether this BatchNorm normalizes with the statistics of the batch."""
    param = parameter(layer_text)
    if param.HasField("use_global_stats"):
        return not param.use_global_stats
    return phase == "TRAIN"


def batch_step(layer_text: str, x: np.ndarray, dy: np.ndarray, stats: list) -> dict:
    """One forward and backward pass; updates `stats` (three arrays) in place."""
    param = parameter(layer_text)
    c = x.shape[1]
    by_channel = np.moveaxis(x, 1, 0)
    m = by_channel.size // c
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text(NET.format(c=c, m=m, eps=param.eps))
        net = caffe.Net(str(path), caffe.TRAIN)
    net.blobs["x"].data[...] = by_channel.reshape(c, m)
    net.forward()
    net.blobs["y"].diff[...] = np.moveaxis(dy, 1, 0).reshape(c, m)
    net._backward(len(net.layers) - 1, 0)

    def back(rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(rows.reshape(by_channel.shape), 0, 1))

    fraction = np.float32(param.moving_average_fraction)
    unbiased = np.float32(m / (m - 1) if m > 1 else 1)
    stats[0][...] = fraction * stats[0] + net.blobs["mean"].data
    stats[1][...] = fraction * stats[1] + unbiased * net.blobs["var"].data
    stats[2][...] = fraction * stats[2] + np.float32(1)
    return {"top/0": back(net.blobs["y"].data), "bottom_diff/0": back(net.blobs["x"].diff)}
