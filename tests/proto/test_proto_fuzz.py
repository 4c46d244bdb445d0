"""The reader against protobuf's own on random messages, and against texts with random damage."""

from __future__ import annotations

import struct

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.errors import PrototxtError
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse, write

INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
}


def scalars(field):
    """Values that a field may hold; no NaN, which equals nothing."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        return st.binary(max_size=8) if is_bytes else st.text(max_size=8)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind in INTEGERS:
        return INTEGERS[kind]
    width = 32 if kind == FieldDescriptor.CPPTYPE_FLOAT else 64
    return st.floats(width=width, allow_nan=False)


@st.composite
def filled(draw, message_class, depth=4):
    """A message of the class with some fields set, those inside it too."""
    message = message_class()
    fields = list(message_class.DESCRIPTOR.fields)
    required = [f for f in fields if message_class.DESCRIPTOR.name == "ClipParameter"]
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda f: f.name))
    for field in required or chosen:
        count = draw(st.integers(0, 3)) if messages.is_repeated(field) else 1
        for _ in range(count):
            if field.message_type is None:
                value = draw(scalars(field))
            elif depth:
                value = draw(filled(getattr(messages, field.message_type.name), depth - 1))
            else:
                continue
            put(message, field, value)
    return message


def put(message, field, value):
    if messages.is_repeated(field):
        getattr(message, field.name).append(value)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(value)
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, value)


CLASSES = [messages.NetParameter, messages.SolverParameter, messages.BlobProto, messages.Datum]


def test_the_largest_float_survives_every_release_of_protobuf() -> None:
    text = "dropout_param { dropout_ratio: 3.4028235e+38 }"
    ratio = parse(text, messages.LayerParameter).message.dropout_param.dropout_ratio
    assert ratio == 3.4028234663852886e38
    written = write(messages.LayerParameter(dropout_param={"dropout_ratio": -ratio}))
    assert float(written.split("dropout_ratio:")[1].split()[0]) == -3.4028234663852886e38


@pytest.mark.parametrize("message_class", CLASSES, ids=lambda c: c.DESCRIPTOR.name)
def test_written_messages_read_back_equal_by_us_and_by_protobuf(message_class):
    @settings(max_examples=60, deadline=None)
    @given(filled(message_class))
    def check(message):
        text = write(message)
        wire = message.SerializeToString()
        assert parse(text, message_class).message.SerializeToString() == wire
        assert text_format.Parse(text, message_class()).SerializeToString() == wire
        theirs = text_format.MessageToString(message)
        assert parse(theirs, message_class).message.SerializeToString() == wire

    check()


TEXT = """name: "net" # a net
layer { name: "conv" type: 'Convolution' bottom: "data" top: "conv" param { lr_mult: 1. } include: {
  phase: TRAIN } convolution_param < num_output: 0x14, kernel_size: [3, 5]; pad: 010 bias_term: t
  weight_filler { type: "xavier" "\\x41\\n" std: -1e-5f } > loss_weight: -inf }
layers { type: DATA data_param { backend: 1 scale: .5 } } force_backward: true
"""
PIECES = [
    *"{}<>[]:;,-\"'#\\\n\0 .",
    "layer {",
    "3x",
    "1e999",
    "0x",
    "\\U99999999",
    "é",
]


def edits(*more):
    """Places in TEXT, the number of characters to drop there, and what to put in."""
    piece = st.sampled_from(["", *PIECES, *more])
    edit = st.tuples(st.integers(0, len(TEXT)), st.integers(0, 12), piece)
    return st.lists(edit, min_size=1, max_size=6)


@settings(max_examples=400, deadline=None)
@given(edits("\ud800"), st.booleans())
def test_damaged_text_gives_a_message_or_a_prototxt_error_with_places(damage, lenient):
    text = TEXT
    for start, length, piece in damage:
        text = text[:start] + piece + text[start + length :]
    try:
        message = parse(text, messages.NetParameter, name="t", lenient=lenient).message
    except PrototxtError as error:
        last = text.count("\n") + 1
        *lines, rest = str(error).splitlines()
        for line in lines if rest.startswith("… and") else [*lines, rest]:
            file, row, column, _ = line.split(":", 3)
            assert file == "t"
            assert 1 <= int(row) <= last
            assert int(column) >= 1
    else:
        assert parse(write(message), messages.NetParameter).message == message


def test_undamaged_text_is_read_alike():
    theirs = text_format.Parse(TEXT, messages.NetParameter())
    assert parse(TEXT, messages.NetParameter).message == theirs


@settings(max_examples=400, deadline=None)
@given(edits())
def test_what_protobuf_reads_we_read_alike(damage):
    text = TEXT
    for start, length, piece in damage:
        text = text[:start] + piece + text[start + length :]
    try:
        theirs = text_format.Parse(text, messages.NetParameter())
    except (text_format.ParseError, ValueError, DeprecationWarning):
        return  # the warning is about an escape that only the Python version lets pass
    try:
        ours = parse(text, messages.NetParameter).message
    except PrototxtError as error:
        stricter = (
            "decimal number",
            "begins with 0",
            "must not end",
            "unknown escape",
            "too large",
        )
        assert all(any(w in line for w in stricter) for line in str(error).splitlines()), text
    else:
        assert ours.SerializeToString() == theirs.SerializeToString()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_are_written_with_the_fewest_digits_that_give_them_back(value):
    text = write(messages.FillerParameter(value=value)).removeprefix("value: ").strip()
    back = struct.unpack("f", struct.pack("f", float(text)))[0]
    assert back == value
    digits = len(text.lstrip("-").split("e")[0].replace(".", "").lstrip("0").rstrip("0"))
    if digits > 6 and abs(value) != 3.4028234663852886e38:  # that one is written whole
        shorter = float(f"{value:.{digits - 1}g}")
        assert struct.unpack("f", struct.pack("f", min(shorter, 3.4e38)))[0] != value
