"""Binary files and the arrays in them: exact, fast, and clear about files that are not theirs."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from swcaffe.errors import DataError, SnapshotError, WeightsError
from swcaffe.proto import binary, messages
from swcaffe.proto.binary import array_to_blob, blob_shape, blob_to_array, read_net_binary


def net_with(*arrays):
    net = messages.NetParameter(name="n")
    layer = net.layer.add(name="ip", type="InnerProduct")
    layer.blobs.extend(array_to_blob(array) for array in arrays)
    return net


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3, 4, 5), (300,)])
def test_arrays_survive_the_way_through_a_blob(shape):
    rng = np.random.default_rng(0)
    values, diff = rng.normal(size=(2, *shape)).astype(np.float32)
    blob = array_to_blob(values, diff)
    assert list(blob.data) == values.ravel().tolist()
    assert list(blob.diff) == diff.ravel().tolist()
    for array, expected in ((blob_to_array(blob), values), (blob_to_array(blob, diff=True), diff)):
        assert array.dtype == np.float32
        assert array.flags.writeable
        np.testing.assert_array_equal(array, expected, strict=True)


def test_arrays_of_any_layout_and_type_are_stored_row_by_row():
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    blob = array_to_blob(array)
    assert list(blob.data) == [0, 3, 1, 4, 2, 5]
    doubles = array_to_blob(array.astype(np.float64), array)
    assert list(doubles.double_data) == [0, 3, 1, 4, 2, 5]
    assert not doubles.data
    assert list(doubles.diff) == [0, 3, 1, 4, 2, 5]


def test_double_data_counts_before_data_as_in_caffe():
    blob = messages.BlobProto(data=[1, 2], double_data=[3, 4], diff=[5, 6])
    blob.shape.dim.append(2)
    assert blob_to_array(blob).tolist() == [3, 4]
    assert blob_to_array(blob, diff=True).tolist() == [5, 6]


def test_legacy_dimensions_count_as_soon_as_one_is_present():
    blob = messages.BlobProto(num=1, channels=1, height=2, width=3, data=range(6))
    assert blob_shape(blob) == (1, 1, 2, 3)
    assert blob_to_array(blob).tolist() == [[[[0, 1, 2], [3, 4, 5]]]]
    blob = messages.BlobProto(num=0)
    blob.shape.dim.append(5)
    assert blob_shape(blob) == (0, 0, 0, 0)


def test_unpacked_and_split_lists_are_read_whole():
    """Caffe before packing wrote a tag per value; parsers must take both, and lists in pieces."""
    unpacked = b"".join(b"\x2d" + struct.pack("<f", x) for x in (1, 2))
    packed = b"\x2a\x08" + struct.pack("<2f", 3, 4)
    blob = messages.BlobProto.FromString(unpacked + packed + b"\x3a\x03\x0a\x01\x04")
    assert blob_to_array(blob).tolist() == [1, 2, 3, 4]


def test_values_are_found_among_all_kinds_of_fields_known_and_unknown():
    blob = messages.BlobProto.FromString(
        b"\x08\x01\x10\x01\x18\x01\x20\x02"  # legacy shape 1 1 1 2
        + b"\x2a\x08"
        + struct.pack("<2f", 7, 8)
        + b"\xf1\x06"  # field 110, eight bytes
        + bytes(8)
        + b"\xfd\x06"  # field 111, four bytes
        + bytes(4)
        + b"\x80\x07\x80\x01"  # field 112, a two-byte number
    )
    assert blob_to_array(blob).tolist() == [[[[7, 8]]]]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("DOUBLE", "<f8"), ("FLOAT", "<f4"), ("FLOAT16", "<f2"), ("INT", "<i4"), ("UINT", "<u4")],
)
def test_raw_blobs_of_nvcaffe_are_read_as_float32(kind, dtype):
    values = np.array([[1, 2, 1024]], dtype)
    blob = messages.BlobProto(raw_data=values.tobytes(), raw_diff=values.tobytes())
    blob.raw_data_type = blob.raw_diff_type = messages.RawArray.Type.Value(kind)
    blob.shape.dim.extend(values.shape)
    for diff in (False, True):
        array = blob_to_array(blob, diff=diff)
        assert array.dtype == np.float32
        assert array.tolist() == [[1, 2, 1024]]


def test_values_that_do_not_fit_the_shape_are_refused():
    blob = messages.BlobProto(data=[1, 2, 3])
    blob.shape.dim.extend([2, 2])
    with pytest.raises(WeightsError, match=r"shape \(2, 2\) holds 3 values of data"):
        blob_to_array(blob)
    with pytest.raises(WeightsError, match="holds 0 values of diff"):
        blob_to_array(blob, diff=True)
    blob = messages.BlobProto(data=[1, 2, 3, 4])
    blob.shape.dim.extend([-2, -2])
    with pytest.raises(WeightsError, match=r"shape \(-2, -2\)"):
        blob_to_array(blob)


def test_files_round_trip_and_leave_nothing_beside_them(tmp_path):
    path = tmp_path / "n_iter_1.caffemodel"
    net = net_with(np.ones((2, 3)), np.zeros(2))
    binary.write(path, net)
    assert read_net_binary(path) == net
    assert list(tmp_path.iterdir()) == [path]
    state = messages.SolverState(iter=7, learned_net=str(path))
    state.swcaffe.reader.add(net=0, layer="data", consumed=448)
    binary.write(path, state, SnapshotError)
    assert binary.read(path, messages.SolverState, SnapshotError) == state


def test_old_weight_files_are_upgraded_with_their_values(tmp_path):
    path = tmp_path / "old.caffemodel"
    net = messages.NetParameter(name="old", input=["data"])
    layer = net.layers.add(name="ip", type=messages.V1LayerParameter.INNER_PRODUCT)
    layer.blobs.add(num=1, channels=1, height=1, width=2, data=[1, 2])
    path.write_bytes(net.SerializeToString())
    (layer,) = read_net_binary(path).layer
    assert (layer.name, layer.type) == ("ip", "InnerProduct")
    assert blob_to_array(layer.blobs[0]).ravel().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", r"w\.caffemodel is empty"),
        (b"name: 'a prototxt'", r"\(18 B\) is not a binary NetParameter\n  fix: the file is cut"),
        (b"\x89HDF\r\n\x1a\n....", "it is an HDF5 file"),
        (b"version https://git-lfs.github.com/spec/v1", "it is a Git LFS pointer"),
        (messages.NetParameter(name="n").SerializeToString(), "holds no layer"),
        (messages.NetParameter(layer=[{}], layers=[{}]).SerializeToString(), "both 'layer'"),
    ],
)
def test_files_of_another_kind_are_named_and_told_apart(tmp_path, content, expected):
    path = tmp_path / "w.caffemodel"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=expected):
        read_net_binary(path)


def test_a_file_cut_anywhere_inside_a_layer_is_refused(tmp_path):
    path = tmp_path / "w.caffemodel"
    content = net_with(np.ones(100)).SerializeToString()
    head = len(messages.NetParameter(name="n").SerializeToString())
    for length in range(head + 1, len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(WeightsError, match=r"w\.caffemodel"):
            read_net_binary(path)


def test_missing_file_and_folder_are_named_in_the_callers_error(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*none: No such file"):
        binary.read(tmp_path / "none", messages.BlobProto, DataError)
    with pytest.raises(SnapshotError, match=r"cannot write .*: No such file"):
        binary.write(tmp_path / "no" / "x", messages.SolverState(iter=1), SnapshotError)


class Huge:
    """A message of 2 GiB, as far as anyone may look at it."""

    def ByteSize(self):
        return 2**31


def test_more_than_a_message_may_hold_is_refused_before_reading_and_writing(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(WeightsError, match="2147483648 B, more than the 2147483647 B") as caught:
        binary.write(path, Huge())
    assert "snapshot_format: HDF5" in caught.value.fix
    with path.open("wb") as sparse:
        sparse.truncate(2**31)
    with pytest.raises(WeightsError, match=r"x has 2147483648 B.*\n.*HDF5"):
        read_net_binary(path)


def test_weights_of_70_mb_load_without_a_warning(tmp_path):
    """An InnerProduct of 4096 x 4500; which protobuf once warned of. Warnings are errors here."""
    path = tmp_path / "big.caffemodel"
    weight = np.arange(4096 * 4500, dtype=np.float32).reshape(4096, 4500)
    binary.write(path, net_with(weight))
    assert path.stat().st_size > 70e6
    loaded = blob_to_array(read_net_binary(path).layer[0].blobs[0])
    assert np.array_equal(loaded, weight)
