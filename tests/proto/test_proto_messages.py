"""Schema and message classes: numbers against a table of Caffe's schema, and life beside others."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from swcaffe.proto import messages

ROOT = Path(__file__).resolve().parents[2]
TYPES = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in ("bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64")
}
ROWS = [
    (line.split("\t") + [""] * 7)[:7]
    for line in (Path(__file__).parent / "caffe_schema.tsv").read_text().splitlines()
]


def type_name(field):
    """A field's type as the table writes it: enums of the same message without their owner."""
    if field.message_type is not None:
        return field.message_type.name
    return field.enum_type.name if field.enum_type is not None else TYPES[field.type]


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def same_default(field, text):
    if text == "-":
        return not field.has_default_value
    if field.enum_type is not None:
        return field.enum_type.values_by_number[field.default_value].name == text
    if type_name(field) == "float":
        return as_float32(field.default_value) == as_float32(float(text))
    value = {"true": True, "false": False}.get(text, text.strip('"'))
    return field.default_value == type(field.default_value)(value)


def is_packed(field):
    options = field.GetOptions()
    return options.HasField("packed") and options.packed


def label(message_class, field):
    if messages.is_repeated(field):
        return "repeated"
    filled = {} if not field.has_default_value else {field.name: field.default_value}
    required = field.name in {"min", "max"} and message_class.DESCRIPTOR.name == "ClipParameter"
    assert message_class(**filled).IsInitialized() is not required
    return "required" if required else "optional"


def test_fields_equal_the_table_of_caffes_schema():
    fields = [row for row in ROWS if row[0] != "enum"]
    assert len(fields) == 423
    for row in fields:
        message, number, name, written_label, kind, default, packed = row
        message_class = getattr(messages, message)
        field = message_class.DESCRIPTOR.fields_by_name[name]
        got = (field.number, label(message_class, field), type_name(field), is_packed(field))
        assert got == (int(number), written_label, kind, packed == "packed"), row
        assert same_default(field, default), row


def test_fields_beyond_the_table_of_caffes_schema_have_numbers_no_other_caffe_uses():
    known = {(row[0], row[2]) for row in ROWS if row[0] != "enum"}
    nvcaffe = {"raw_data_type": 10, "raw_diff_type": 11, "raw_data": 12, "raw_diff": 13}
    added = {
        (message, field.name): field.number
        for message in {message for message, _ in known}
        for field in getattr(messages, message).DESCRIPTOR.fields
        if (message, field.name) not in known
    }
    assert added[("PoolingParameter", "ceil_mode")] == 10000
    for (message, field), number in added.items():
        assert 10000 <= number <= 18999 or (message == "BlobProto" and number == nvcaffe[field])


def test_enums_equal_the_table_of_caffes_schema():
    rows = [row for row in ROWS if row[0] == "enum"]
    assert len({row[2] for row in rows}) == 26
    for _, number, owner, value, *_ in rows:
        place = messages if "." not in owner else getattr(messages, owner.split(".")[0])
        assert getattr(place, value) == int(number), (owner, value)


def test_clip_without_bounds_is_incomplete():
    assert not messages.ClipParameter(min=0).IsInitialized()
    assert messages.ClipParameter(min=0, max=1).IsInitialized()


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="NetParamter"):
        _ = messages.NetParamter


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools")
def test_schema_desc_is_what_the_proto_files_compile_to():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gen_proto.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


CLASH = """
from google.protobuf import descriptor_pb2, descriptor_pool
other = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package="caffe", syntax="proto2")
other.message_type.add(name="NetParameter").field.add(name="mine", number=1, type=5, label=1)
{before}
from swcaffe.proto import messages
{after}
net = messages.NetParameter(name="n")
net.layer.add(type="ReLU")
assert messages.NetParameter.FromString(net.SerializeToString()) == net
found = descriptor_pool.Default().FindMessageTypeByName("caffe.NetParameter")
assert [field.name for field in found.fields] == ["mine"]
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_lives_beside_another_package_with_a_caffe_proto(order):
    register = "descriptor_pool.Default().AddSerializedFile(other.SerializeToString())"
    code = CLASH.format(**{"before": "", "after": "", order: register})
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT)
