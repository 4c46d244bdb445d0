"""`swcaffe test`, `time`, `deploy` and the converters on small data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from swcaffe.cli.main import main
from swcaffe.data.convert_mnist import write_idx
from swcaffe.proto import messages
from swcaffe.proto.binary import array_to_blob, write

NET = """
name: "tiny"
layer {{ name: "data" type: "Data" top: "data" top: "label"
  transform_param {{ scale: 0.00390625 }}
  data_param {{ source: "{folder}/db" batch_size: 10 backend: LMDB }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  include {{ phase: TEST }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (37, 6, 6)).astype(np.uint8)
    labels = (np.arange(37) % 3).astype(np.uint8)
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels", labels)
    assert (
        main(["convert_mnist_data", *(str(tmp_path / n) for n in ("images", "labels", "db"))]) == 0
    )
    (tmp_path / "net.prototxt").write_text(NET.format(folder=tmp_path))
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 20 '
        f'snapshot_prefix: "{tmp_path}/w" random_seed: 1'
    )
    argv = ["train", "--solver", str(tmp_path / "solver.prototxt"), "--engine", "host"]
    assert main(argv) == 0
    return tmp_path


def score(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, float]:
    capsys.readouterr()
    model, weights = folder / "net.prototxt", folder / "w_iter_20.caffemodel"
    argv = ["test", "--model", str(model), "--weights", str(weights), "--engine", "host", *flags]
    assert main(argv) == 0
    log = capsys.readouterr().err
    found = re.findall(r"caffe\.cpp:330\] (\S+) = (\S+)", log)
    return {name: float(value) for name, value in found}


def test_scoring_all_records_weighs_each_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = score(folder, capsys, "--all")
    one_by_one = (folder / "net.prototxt").read_text().replace("batch_size: 10", "batch_size: 1")
    (folder / "net.prototxt").write_text(one_by_one)
    single = score(folder, capsys, "--iterations", "37")
    assert exact == pytest.approx(single, rel=1e-5)
    assert exact["accuracy"] * 37 == pytest.approx(round(exact["accuracy"] * 37), abs=1e-3)


def test_scoring_all_records_counts_each_good_picture_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case C04 in `test --all`: bad pictures, the last ones too, bring no good one in twice."""
    lines = []
    for i in range(11):
        label = int(i in (0, 5))
        Image.fromarray(np.full((4, 4, 3), 200 * label, np.uint8)).save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png {1 - label if i == 0 else label}\n")
    for i in (3, 9, 10):
        (tmp_path / f"{i}.png").write_bytes(b"")
    (tmp_path / "list.txt").write_text("".join(lines))
    (tmp_path / "net.prototxt").write_text(f"""
      layer {{ name: "in" type: "ImageData" top: "x" top: "t" image_data_param {{
        source: "{tmp_path}/list.txt" root_folder: "{tmp_path}/" batch_size: 4 }} }}
      layer {{ name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
        inner_product_param {{ num_output: 2 }} }}
      layer {{ name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "t" top: "accuracy" }}""")
    net = messages.NetParameter()
    blobs = [np.array([[0.0] * 48, [1.0] * 48]), np.array([1.0, 0.0])]
    net.layer.add(name="ip", blobs=[array_to_blob(b.astype(np.float32)) for b in blobs])
    write(tmp_path / "w.caffemodel", net)
    words = ["test", "--model", f"{tmp_path}/net.prototxt", "--weights", f"{tmp_path}/w.caffemodel"]
    words += ["--all", "--engine", "host"]
    assert main([*words, "--bad_records", "skip"]) == 0
    log = capsys.readouterr().err
    assert "] accuracy = 0.875" in log  # 7 of the 8 good ones: only the first is mislabelled
    assert 'layer "in" (ImageData): 11 items, 3 bad records skipped' in log
    assert main(words) == 1
    assert "list.txt:4: " in capsys.readouterr().err


def test_scoring_batches_that_repeat_records_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case D09 for `test --iterations`."""
    model, weights = str(folder / "net.prototxt"), str(folder / "w_iter_20.caffemodel")
    words = ["test", "--model", model, "--weights", weights, "--engine", "host"]
    assert main([*words, "--iterations", "4"]) == 0
    assert "4 batches of 10 read 3 of 37 records once more often" in capsys.readouterr().err
    assert main([*words, "--iterations", "3"]) == 0
    assert "once more often" not in capsys.readouterr().err


def test_scoring_without_the_weights_of_a_layer_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = folder / "net.prototxt"
    hidden = """layer { name: "new" type: "InnerProduct" bottom: "data" top: "new"
      inner_product_param { num_output: 2 } } layer { name: "out" type: "Silence" bottom: "new" }"""
    net.write_text(net.read_text() + hidden)
    words = ["test", "--model", str(net), "--weights", str(folder / "w_iter_20.caffemodel")]
    assert main([*words, "--iterations", "1", "--engine", "host"]) == 0
    assert re.search(r"^W.*has no weights for new: what is scored", capsys.readouterr().err, re.M)


def test_time_prints_caffes_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    argv = [
        "time",
        "--model",
        str(folder / "net.prototxt"),
        "--iterations",
        "3",
        "--engine",
        "host",
    ]
    assert main(argv) == 0
    log = capsys.readouterr().err
    assert log.count("forward-backward time:") == 3
    for layer in ("data", "ip", "loss"):
        assert re.search(rf"\] +{layer}\tforward: \S+ ms\.", log)
        assert re.search(rf"\] +{layer}\tbackward: \S+ ms\.", log)
    assert re.search(r"Average Forward-Backward: \S+ ms\.", log)


def test_deploy_writes_a_net_that_builds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "deploy.prototxt"
    argv = ["deploy", "--input", "data=2,1,6,6", "--output", str(out), str(folder / "net.prototxt")]
    assert main(argv) == 0
    assert main(["time", "--model", str(out), "--iterations", "1", "--engine", "host"]) == 0
    assert "accuracy" not in out.read_text()
    assert main(["deploy", "--input", "data=2,x", str(folder / "net.prototxt")]) == 2
    assert "'data=2,x' is not NAME=N,C,H,W" in capsys.readouterr().err


def test_pictures_become_a_database_and_a_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for i in range(4):
        pixels = np.full((5, 7, 3), (10 * i, 20, 30), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"picture {i}.png")
        lines.append(f"picture {i}.png {i % 2}")
    (tmp_path / "list.txt").write_text("\n".join(lines))
    names = [f"{tmp_path}/", str(tmp_path / "list.txt"), str(tmp_path / "db")]
    assert main(["convert_imageset", "--shuffle", *names]) == 0
    assert (
        main(["compute_image_mean", str(tmp_path / "db"), str(tmp_path / "mean.binaryproto")]) == 0
    )
    out, log = capsys.readouterr()
    assert "4 pictures stored, 0 skipped" in out
    assert "mean_value channel [0]: 30" in log + out
    assert "mean_value channel [2]: 15" in log + out
    assert main(["convert_imageset", *names]) == 1
    assert "exists" in capsys.readouterr().err


STAGED = """
layer { name: "training" type: "DummyData" top: "x" top: "t" include { stage: "train" }
  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }
layer { name: "validation" type: "DummyData" top: "x" top: "t" include { stage: "val" }
  dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 2 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "t" top: "accuracy"
  include { stage: "val" } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "t" top: "loss" }
"""


def test_nets_with_stages_only_train_and_test_with_a_stage_and_explain_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case A12: `--stage train`, `--stage val`, and none at all."""
    net, solver = tmp_path / "net.prototxt", tmp_path / "solver.prototxt"
    net.write_text(STAGED)
    solver.write_text(
        f'net: "{net}" base_lr: 0.1 lr_policy: "fixed" max_iter: 2 solver_mode: CPU '
        f'snapshot_prefix: "{tmp_path}/w"'
    )
    assert main(["train", "--solver", str(solver), "--stage", "train"]) == 0
    assert "accuracy" not in capsys.readouterr().err
    words = ["test", "--model", str(net), "--weights", f"{tmp_path}/w_iter_2.caffemodel"]
    assert main([*words, "--iterations", "1", "--engine", "host", "--stage", "val"]) == 0
    assert "accuracy = " in capsys.readouterr().err
    for again in (["train", "--solver", str(solver)], [*words, "--engine", "host"]):
        assert main(again) == 1
        error = capsys.readouterr().err
        assert 'no layer produces blob "x"' in error
        assert '"training" (include { stage' in error and '"validation" (include { stage' in error


def test_device_query_describes_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device_query", "-gpu", "all"]) == 0
    log = capsys.readouterr().err
    assert "Querying GPUs all" in log
    assert re.search(r"Peak of a core group: +742\.4 GFLOPS", log)
