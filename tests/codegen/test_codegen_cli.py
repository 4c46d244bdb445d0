"""`swcaffe codegen`: a net's programs by layer and direction, in a folder that builds."""

from __future__ import annotations

import subprocess

import pytest
from host_battery import STRICT, needs_gcc

from swcaffe.cli.main import main

NET = """
name: "small"
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } } }
layer { name: "conv/3x3" type: "Convolution" bottom: "data" top: "c"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "c" top: "r" }
layer { name: "relu2" type: "ReLU" bottom: "r" top: "s" }
layer { name: "2fc" type: "InnerProduct" bottom: "s" top: "f"
        inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "f" top: "p" }
"""


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return path


def test_each_program_is_named_after_layer_and_direction_and_written_once(net, tmp_path, capsys):
    out = tmp_path / "c"
    assert main(["codegen", str(net), "-o", str(out), "--phase", "TEST"]) == 0
    lines = dict(line.split(maxsplit=2)[::2] for line in capsys.readouterr().out.splitlines())
    assert lines["conv/3x3"].startswith("conv_3x3_forward: conv_forward_")
    assert lines["relu"] == "relu_forward: walk_activation_forward"
    assert lines["relu2"] == "relu_forward: walk_activation_forward"
    assert lines["2fc"] == "_2fc_forward: gemm"
    slaves = {path.name for path in out.glob("*_slave.c")}
    assert slaves >= {"conv_3x3_forward_slave.c", "relu_forward_slave.c", "_2fc_forward_slave.c"}
    assert "relu2_forward_slave.c" not in slaves


@needs_gcc
@pytest.mark.slow
def test_the_folder_of_a_net_in_training_builds_without_a_warning(net, tmp_path):
    out = tmp_path / "c"
    assert main(["codegen", str(net), "-o", str(out)]) == 0
    made = subprocess.run(
        ["make", "-s", STRICT], cwd=out, capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (0, "")
    listed = subprocess.run(["./run"], cwd=out, capture_output=True, text=True, check=False)
    assert listed.returncode == 2
    assert "conv_3x3_backward  4 files" in listed.stderr


def test_layers_can_be_chosen(net, tmp_path, capsys):
    out = tmp_path / "c"
    assert main(["codegen", str(net), f"--output={out}", "--layer", "2fc", "--phase", "TEST"]) == 0
    assert capsys.readouterr().out.split() == ["2fc", "forward", "_2fc_forward:", "gemm"]
    assert [path.name for path in out.glob("*_slave.c")] == ["_2fc_forward_slave.c"]


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        ([], 2, "error: swcaffe codegen needs -o DIR\n"),
        (["-o", "c", "--layer", "relu3"], 2, "error: unknown layer 'relu3' (did you mean"),
        (["-o", "c", "--layer", "in"], 1, "error: no operator of "),
    ],
)
def test_what_is_wrong_is_said(net, tmp_path, capsys, monkeypatch, flags, code, text):
    monkeypatch.chdir(tmp_path)
    assert main(["codegen", str(net), *flags]) == code
    assert f"\n{text}" in f"\n{capsys.readouterr().err}"
    assert not (tmp_path / "c").exists()
