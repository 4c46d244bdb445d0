"""The other side of host_operators.py: the same computations in PyTorch's eager mode.

Runs under a Python that has torch. Reads one JSON list from each line, [kind, *sizes, runs], and
answers with the seconds of each run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as nnf


def convolution(
    part: str, n: int, ic: int, oc: int, size: int, k: int, stride: int, pad: int, groups: int
):
    x, w = torch.randn(n, ic, size, size), torch.randn(oc, ic // groups, k, k)
    bias = torch.randn(oc)
    y = nnf.conv2d(x, w, bias, stride, pad, 1, groups)
    if part == "forward":
        return lambda: nnf.conv2d(x, w, bias, stride, pad, 1, groups)
    mask = [part == "data", part == "weights", part == "weights"]
    dy = torch.randn_like(y)
    two = [[v, v] for v in (stride, pad, 1)]
    return lambda: torch.ops.aten.convolution_backward(
        dy, x, w, [oc], *two, False, [0, 0], groups, mask
    )


def linear(part: str, m: int, n: int, k: int):
    x, w, bias, dy = torch.randn(m, k), torch.randn(n, k), torch.randn(n), torch.randn(m, n)
    if part == "forward":
        return lambda: nnf.linear(x, w, bias)
    if part == "data":
        return lambda: dy @ w
    return lambda: (dy.t() @ x, dy.sum(0))


def pool(part: str, n: int, c: int, size: int, k: int, stride: int, pad: int):
    x = torch.randn(n, c, size, size)
    y, index = nnf.max_pool2d(x, k, stride, pad, 1, True, return_indices=True)
    if part == "forward":
        return lambda: nnf.max_pool2d(x, k, stride, pad, 1, True)
    dy, two = torch.randn_like(y), [[v, v] for v in (k, stride, pad, 1)]
    return lambda: torch.ops.aten.max_pool2d_with_indices_backward(dy, x, *two, True, index)


def mean(part: str, n: int, c: int, size: int, k: int, stride: int, pad: int):
    x = torch.randn(n, c, size, size)
    y = nnf.avg_pool2d(x, k, stride, pad, True)
    if part == "forward":
        return lambda: nnf.avg_pool2d(x, k, stride, pad, True)
    dy, two = torch.randn_like(y), [[v, v] for v in (k, stride, pad)]
    return lambda: torch.ops.aten.avg_pool2d_backward(dy, x, *two, True, True, None)


def relu(part: str, count: int):
    x, dy = torch.randn(count), torch.randn(count)
    if part == "forward":
        return lambda: nnf.relu_(x)
    return lambda: torch.ops.aten.threshold_backward(dy, x, 0)


def softmax_loss(part: str, n: int, c: int):
    x, label = torch.randn(n, c), torch.randint(0, c, (n,))
    p = nnf.log_softmax(x, 1)
    dy, total = torch.ones(()), torch.tensor(float(n))
    if part == "forward":
        return lambda: nnf.cross_entropy(x, label)

    def backward():
        d = torch.ops.aten.nll_loss_backward(dy, p, label, None, 1, -100, total)
        return torch.ops.aten._log_softmax_backward_data(d, p, 1, torch.float32)

    return backward


def sgd(part: str, *counts: int):
    params = [torch.nn.Parameter(torch.randn(count)) for count in counts]
    for p in params:
        p.grad = torch.randn_like(p)
    return torch.optim.SGD(params, 0.01, momentum=0.9, weight_decay=5e-4).step


KINDS: dict[str, Callable[..., Callable[[], Any]]] = {
    "conv": convolution,
    "linear": linear,
    "max": pool,
    "ave": mean,
    "relu": relu,
    "softmax_loss": softmax_loss,
    "sgd": sgd,
}


def main() -> None:
    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    now = time.thread_time if threads == 1 else time.perf_counter
    made: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        for line in sys.stdin:
            kind, part, *sizes, runs = json.loads(line)
            key = line.rsplit(",", 1)[0]
            if key not in made:
                made[key] = KINDS[kind](part, *sizes)
            seconds = []
            for _ in range(runs):
                start = now()
                made[key]()
                seconds.append(now() - start)
            print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
