"""What every compressor must do, whatever it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.errors import NumericsError, ParallelError
from swcaffe.parallel.compressors import COMPRESSORS, Gathering
from swcaffe.parallel.residual import Residual

SHAPE = (40, 50)
COUNT = 2000


def gradients(n=1, seed=0, count=COUNT):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(count) ** 3).astype(np.float32) for _ in range(n)]


def alone(compressor, flat, state):
    """(what one rank's message stands for, places it speaks of or None)."""
    total, sent = np.zeros_like(flat), np.zeros_like(flat)
    if isinstance(compressor, Gathering):
        message = compressor.encode(flat, state)
        compressor.decode(message, total)
        return total, compressor.sent(message, flat.size)
    for _ in compressor.steps(flat, state, total, sent):
        pass
    np.testing.assert_array_equal(total, sent)
    return total, compressor.places(state, flat.size)


def feed_back(residual, gradient):
    """One iteration of error feedback on one rank; what was sent."""
    left = residual.offer(gradient)
    sent, places = alone(residual.compressor, left, residual.memory)
    left -= sent
    residual.mask(places)
    return sent


def check_compressor(name, density=0.01):
    compressor = COMPRESSORS.get(name)(density)
    check_purity(compressor)
    check_conservation(compressor)
    check_resumes(compressor)
    check_refusal_of_nan(compressor)
    if isinstance(compressor, Gathering):
        check_foreign_messages(compressor)


def check_purity(compressor):
    """The gradient stays as it is; equal state and gradient give equal results."""
    flat = gradients()[0]
    before = flat.copy()
    first, places = alone(compressor, flat, compressor.new_state(SHAPE, "w"))
    second, _ = alone(compressor, flat, compressor.new_state(SHAPE, "w"))
    assert flat.tobytes() == before.tobytes()
    assert first.tobytes() == second.tobytes()
    if places is not None:
        silent = np.ones(flat.size, bool)
        silent[places] = False
        assert not first[silent].any()
    decoded = np.ones_like(flat)
    if isinstance(compressor, Gathering):
        message = compressor.encode(flat, compressor.new_state(SHAPE, "w"))
        compressor.decode(message, decoded, -1.0)
        np.testing.assert_array_equal(decoded, 1 - first)


def check_conservation(compressor):
    """All that was sent and what is left are all that was offered, at every iteration."""
    residual = Residual("w", SHAPE, compressor)
    sent, offered = np.zeros(COUNT), np.zeros(COUNT)
    for gradient in gradients(30):
        sent += feed_back(residual, gradient)
        offered += gradient
        scale = float(np.abs(offered).max())
        np.testing.assert_allclose(sent + residual.left, offered, rtol=0, atol=2e-6 * scale)
    assert np.linalg.norm(sent) > 0


def check_resumes(compressor):
    """A run continued from its state sends the same bits."""
    whole, first = Residual("w", SHAPE, compressor), Residual("w", SHAPE, compressor)
    for gradient in gradients(7):
        feed_back(whole, gradient)
        feed_back(first, gradient)
    second = Residual("w", SHAPE, compressor)
    second.load_state(first.state())
    for gradient in gradients(7, seed=1):
        assert feed_back(whole, gradient).tobytes() == feed_back(second, gradient).tobytes()


def check_refusal_of_nan(compressor):
    for bad in (np.nan, np.inf, -np.inf):
        residual = Residual("w", SHAPE, compressor)
        before = residual.state()
        flat = gradients()[0]
        flat[77] = bad
        with pytest.raises(NumericsError, match="NaN or infinity"):
            residual.offer(flat)
        for key, value in residual.state().items():
            assert value.tobytes() == before[key].tobytes()


def check_foreign_messages(compressor):
    """Damaged messages are refused with nothing written, or stand for finite numbers."""
    rng = np.random.default_rng(3)
    good = compressor.encode(gradients()[0], compressor.new_state(SHAPE, "w"))
    refused = 0
    for _ in range(500):
        message = good.copy()
        if rng.random() < 0.3:
            message = message[: rng.integers(message.size)]
        if message.size:
            for at in rng.integers(0, message.size, rng.integers(1, 4)):
                message[at] = rng.integers(256)
        out = np.zeros(COUNT, np.float32)
        try:
            compressor.decode(message, out)
        except ParallelError as error:
            assert "malformed gradient message" in str(error)
            assert not out.any()
            refused += 1
        assert np.isfinite(out).all()
    assert refused > 100
