"""The other side of training_step.py: the same net as PyTorch's eager mode computes it.

Runs under a Python that has torch. The first argument is a JSON list of layers, each [type, bottoms,
tops, numbers] as `training_step.described` writes them, the second the inputs by name, {name: [shape,
count]} with whole numbers below count where it is not 0. A line with a number of steps on stdin is
answered with the seconds of one step.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.nn.functional as nnf
from torch import nn

Tensor = torch.Tensor


class Lazy(nn.Module):
    """A layer whose parameters are made when the first input shows their shapes."""

    def __init__(self, kind: str, numbers: dict[str, Any]) -> None:
        super().__init__()
        self.kind, self.v = kind, numbers
        self.made: nn.Module | None = None

    def make(self, x: Tensor) -> nn.Module:
        v, kind = self.v, self.kind
        if kind == "Convolution":
            sizes = (v["kernel"], v["stride"], v["pad"], 1, v["group"], v["bias"])
            return nn.Conv2d(x.shape[1], v["num_output"], *sizes)
        if kind == "InnerProduct":
            return nn.Linear(x[0].numel() if v["axis"] == 1 else x.shape[-1], v["num_output"])
        if kind == "BatchNorm":
            return nn.BatchNorm2d(x.shape[1])
        if kind == "Embed":
            return nn.Embedding(v["input_dim"], v["num_output"])
        if kind == "LSTM":
            return nn.LSTM(x.shape[-1], v["num_output"])
        if kind == "LRN":
            return nn.LocalResponseNorm(v["size"], v["alpha"], v["beta"], v["k"])
        assert kind == "Dropout", kind
        return nn.Dropout(v["ratio"])

    def forward(self, x: Tensor) -> Tensor:
        if self.made is None:
            self.made = self.make(x)
        if self.kind == "InnerProduct" and self.v["axis"] == 1:
            x = x.flatten(1)
        y = self.made(x)
        return y[0] if self.kind == "LSTM" else y


def pool(v: dict[str, Any], x: Tensor) -> Tensor:
    sizes = (x.shape[2:] if v["global"] else v["kernel"], v["stride"], v["pad"])
    if v["max"]:
        return nnf.max_pool2d(x, *sizes, ceil_mode=True)
    return nnf.avg_pool2d(x, *sizes, ceil_mode=True)


def cross_entropy(v: dict[str, Any], x: Tensor, label: Tensor) -> Tensor:
    scores = x.flatten(0, v["axis"] - 1) if v["axis"] > 1 else x
    return v["weight"] * nnf.cross_entropy(scores, label.flatten())


PLAIN = {
    "ReLU": lambda v, x: nnf.relu(x, inplace=True),
    "Pooling": pool,
    "Concat": lambda v, *xs: torch.cat(xs, 1),
    "Eltwise": lambda v, *xs: sum(xs[1:], xs[0]),
    "Scale": lambda v, x: x,  # part of the batch normalisation before it
    "SoftmaxWithLoss": cross_entropy,
}


class Net(nn.Module):
    """The layers in order, blobs by name."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__()
        self.steps = [
            (PLAIN.get(kind) or Lazy(kind, v), bottoms, tops, v)
            for kind, bottoms, tops, v in layers
        ]
        self.owned = nn.ModuleList(s[0] for s in self.steps if isinstance(s[0], Lazy))

    def forward(self, blobs: dict[str, Tensor]) -> Tensor:
        values, losses = dict(blobs), []
        for step, bottoms, tops, v in self.steps:
            xs = [values[name] for name in bottoms]
            if isinstance(step, Lazy):
                values[tops[0]] = step(xs[0])
            else:
                values[tops[0]] = step(v, *xs)
            if step is cross_entropy:
                losses.append(values[tops[0]])
        return sum(losses[1:], losses[0])


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    net, inputs = Net(json.loads(sys.argv[1])), json.loads(sys.argv[2])
    blobs = {
        name: torch.randint(0, count, shape) if count else torch.rand(shape)
        for name, (shape, count) in inputs.items()
    }
    net(blobs)  # makes the parameters
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=0.0005)

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            net(blobs).backward()
            optimizer.step()

    run(1)
    for line in sys.stdin:
        steps = int(line)
        start = time.perf_counter()
        run(steps)
        print((time.perf_counter() - start) / steps, flush=True)


if __name__ == "__main__":
    main()
