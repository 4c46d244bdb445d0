"""The line that explains a slow first start."""

from __future__ import annotations

import logging
import time

import pytest

from swcaffe.cli.notice import StartNotice


def shown(caplog: pytest.LogCaptureFixture, wait_s: float, *, event: bool) -> str:
    caplog.set_level(logging.INFO, "swcaffe")
    logging.getLogger("swcaffe").propagate = True
    with StartNotice(0.05) as notice:
        if event:
            notice({"event": "iteration"})
        time.sleep(wait_s)
    time.sleep(0.1)
    return caplog.text


def test_who_waits_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    assert "compiles its kernels" in shown(caplog, 0.3, event=False)


def test_nothing_is_said_once_there_is_a_result(caplog: pytest.LogCaptureFixture) -> None:
    assert shown(caplog, 0.3, event=True) == ""


def test_nothing_is_said_after_a_quick_end(caplog: pytest.LogCaptureFixture) -> None:
    assert shown(caplog, 0.0, event=False) == ""
