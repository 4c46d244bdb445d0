"""Printed programs against texts that were reviewed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from swcaffe.ir.buffer import Buffer, Scope
from swcaffe.ir.builder import box
from swcaffe.ir.expr import ROW
from swcaffe.ir.printer import statement_text
from swcaffe.ir.stmt import Bus, If, Recv, Send, Seq

GOLDEN = Path(__file__).parent.parent / "golden"


def load_texts():
    spec = importlib.util.spec_from_file_location("golden_update", GOLDEN / "update.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.texts()


TEXTS = load_texts()


@pytest.mark.parametrize("name", TEXTS)
def test_program_text_is_the_reviewed_one(name):
    assert TEXTS[name] == (GOLDEN / name).read_text(), "run tests/golden/update.py and review"


def test_messages_and_branches_print():
    tile = Buffer("A", (4,), Scope.LDM)
    branch = If(ROW - 1, Seq((Send(Bus.COL, box(tile)),)), Seq((Recv(Bus.COL, box(tile)),)))
    assert statement_text(branch) == "if ROW - 1 == 0"
    assert statement_text(Send(Bus.ROW, box(tile))) == "send row A[:4]"
    assert statement_text(Recv(Bus.ROW, box(tile))) == "recv row A[:4]"
