"""The machine's figures: derived quantities, and a source for every one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import swcaffe.machine.sw26010
from swcaffe.errors import EngineError
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import MACHINES
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY


def test_peak_of_a_core_group_is_the_published_one():
    assert SW26010.peak_flops_per_s == pytest.approx(742.4e9)


def test_every_figure_of_the_sw26010_states_its_kind_and_source():
    text = Path(swcaffe.machine.sw26010.__file__).read_text()
    figures = [line for line in text.splitlines() if re.search(r"^\s+\w+=[\d.]", line)]
    assert len(figures) > 15
    for line in figures:
        assert re.search(r"# \((published|measured|derived|assumed)\)", line), line


def test_machines_are_found_by_name():
    assert MACHINES.get("sw26010") is SW26010
    assert MACHINES.get("toy") is TOY
    with pytest.raises(EngineError, match=r"unknown machine 'sw2610'.*did you mean 'sw26010'"):
        MACHINES.get("sw2610")


def test_toy_has_a_two_by_two_mesh_and_two_kibibytes():
    assert (TOY.mesh.cpes, TOY.ldm.usable_bytes) == (4, 2048)


def test_counters_add_up_and_keep_the_highest_ldm_use():
    a = Counters(dma_get_bytes=4, row_messages=2, ldm_peak_bytes=10)
    a.kernel("add", (8,), 2)
    b = Counters(dma_get_bytes=6, dma_put_bytes=1, ldm_peak_bytes=7)
    b.kernel("add", (8,))
    a.add(b, times=3)
    assert (a.dma_bytes, a.row_messages, a.ldm_peak_bytes) == (25, 2, 10)
    assert a.kernels == {("add", (8,)): 5}


def test_counters_name_what_differs():
    a, b = Counters(flops=3), Counters(flops=4)
    assert a.differences(b) == ["flops: 3 != 4"]
    assert a.differences(Counters(flops=3)) == []
