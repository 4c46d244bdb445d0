"""The prototxt reader and writer: all of the syntax, every kind of error with its place."""

from __future__ import annotations

import math
import re

import pytest
from google.protobuf import text_format

from swcaffe.errors import PrototxtError
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse, read_net, read_solver, write

NET, SOLVER, LAYER = messages.NetParameter, messages.SolverParameter, messages.LayerParameter


def errors_of(text, message_class=NET, **options):
    """The lines of the report for a text that must not be accepted."""
    with pytest.raises(PrototxtError) as caught:
        parse(text, message_class, name="t", **options)
    return str(caught.value).splitlines()


# Syntax

ODD = """
name: "na" 'me'   # two adjacent strings
layer: < name: 'd' , type: "Data" ; top: "data" include: { phase: TEST } include { phase: 0 }
  transform_param { scale: 1.f mirror: t mean_value: [ 1, 5e-1, -0 ] force_gray: False } >
layer { name: "p" type: "Pooling" bottom: ["data"] top: "p" pooling_param < pool: 1 kernel_size: 0x3
  stride: 02 pad : - # a comment between
  0 > propagate_down: 1 loss_weight: -inf loss_weight: .5F }
force_backward: true"""

PLAIN = """
name: "name"
layer {
  name: "d" type: "Data" top: "data"
  include { phase: TEST } include { phase: TRAIN }
  transform_param {
    scale: 1.0 mirror: true mean_value: 1 mean_value: 0.5 mean_value: -0.0 force_gray: false
  }
}
layer {
  name: "p" type: "Pooling" bottom: "data" top: "p"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 0 }
  propagate_down: true loss_weight: -inf loss_weight: 0.5
}
force_backward: true
"""


def test_odd_spellings_equal_the_plainly_written_net():
    odd = parse(ODD, NET).message
    assert odd == text_format.Parse(PLAIN, NET())
    assert math.copysign(1, odd.layer[0].transform_param.mean_value[2]) == -1


@pytest.mark.parametrize("ending", ["", "\n", "  # last", "\r\n"])
def test_last_line_may_end_in_any_way(ending):
    assert parse('name: "a"' + ending, NET).message.name == "a"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'\n\t\\\'\"\?\a\b\f\r\v'", "\n\t\\'\"?\a\b\f\r\v"),
        (r'"\101\x42\u00e9\U0001F600"', "ABé😀"),
        (r'"\303\251"', "é"),
        ('"it\'s" \'say "x"\'', 'it\'ssay "x"'),
        ('"# no comment"', "# no comment"),
        ('"路径/数据"', "路径/数据"),
        ('""', ""),
    ],
)
def test_strings(literal, value):
    assert parse(f"name: {literal}", NET).message.name == value


def test_bytes_hold_any_octet():
    datum = parse(r'data: "\000\377\xfe" "é"', messages.Datum).message
    assert datum.data == b"\x00\xff\xfe\xc3\xa9"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1.", 1),
        (".5", 0.5),
        ("1e3", 1000),
        ("1.5E-2f", 0.015),
        ("-3", -3),
        ("- 3.f", -3),
        ("7f", 7),
    ],
)
def test_reals(literal, value):
    assert parse(f"base_lr: {literal}", SOLVER).message.base_lr == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("literal", ["inf", "Infinity", "INF"])
def test_infinite_and_undefined_reals(literal):
    assert parse(f"base_lr: {literal}", SOLVER).message.base_lr == math.inf
    assert math.isnan(parse("base_lr: -NaN", SOLVER).message.base_lr)


@pytest.mark.parametrize(
    ("field", "literal", "value"),
    [
        ("random_seed", "-9223372036854775808", -(2**63)),
        ("random_seed", "0x7fffffffffffffff", 2**63 - 1),
        ("max_iter", "-2147483648", -(2**31)),
        ("max_iter", "017", 15),
    ],
)
def test_whole_numbers_to_the_limits_of_their_type(field, literal, value):
    assert getattr(parse(f"{field}: {literal}", SOLVER).message, field) == value


def test_kernel_per_axis_keeps_its_order_and_scalars_beside_it():
    text = "kernel_size: 3 kernel_size: 1 pad: 1 pad: 0 kernel_h: 5 dilation: [2, 1]"
    param = parse(text, messages.ConvolutionParameter).message
    assert list(param.kernel_size) == [3, 1]
    assert list(param.pad) == [1, 0]
    assert list(param.dilation) == [2, 1]
    assert param.kernel_h == 5


def test_ceil_mode_of_the_forks_is_an_ordinary_field():
    assert parse("ceil_mode: false", messages.PoolingParameter).message.ceil_mode is False
    assert messages.PoolingParameter().ceil_mode is True


def test_empty_block_is_present_and_empty_list_is_empty():
    layer = parse("pooling_param {} bottom: []", LAYER).message
    assert layer.HasField("pooling_param")
    assert not layer.bottom


# Errors


def test_three_unknown_fields_are_reported_together_with_place_type_fork_and_spelling():
    text = """layer { name: "p" type: "Pooling"
  pooling_param { round_below: true kernel_size: 3 } }
layer { name: "d" type: "MemoryData"
  source_class: "com.example.Source" }
layer { name: "c" type: "Convolution"
  convolution_param { num_output: 2 kernal_size: 3 } }"""
    first, second, third = errors_of(text)
    assert first.startswith("t:2:19: PoolingParameter has no field 'round_below'")
    assert second == (
        "t:4:3: LayerParameter has no field 'source_class' "
        "(it is a field of CaffeOnSpark (yahoo/CaffeOnSpark))"
    )
    assert third == (
        "t:6:37: ConvolutionParameter has no field 'kernal_size' (did you mean kernel_size?)"
    )
    lenient = parse(text, NET, name="t", lenient=True)
    assert list(lenient.warnings) == [first, second, third]
    assert [layer.name for layer in lenient.message.layer] == ["p", "d", "c"]
    assert lenient.message.layer[2].convolution_param.num_output == 2


@pytest.mark.parametrize(
    "value",
    [": 1", ": -2.5", ': "a" "b"', "{ x { y: 1 } z: [1, {}] }", ": < a: 1 >", ": [1, 2]", ": A"],
)
def test_lenient_mode_steps_over_unknown_fields_of_every_shape(value):
    text = f'layer {{ mystery {value} name: "a" }} name: "n"'
    parsed = parse(text, NET, lenient=True)
    assert (parsed.message.name, parsed.message.layer[0].name) == ("n", "a")
    assert len(parsed.warnings) == 1


def test_lenient_mode_forgives_nothing_else():
    assert len(errors_of("mystery: 1 name: 2", lenient=True)) == 1


def test_field_in_the_wrong_message_is_told_where_it_belongs():
    (line,) = errors_of("layer { batch_size: 3 }")
    assert line.startswith(
        "t:1:9: LayerParameter has no field 'batch_size' (it belongs inside data_"
    )


def test_string_type_in_the_old_format_is_answered_with_both_ways_out():
    (line,) = errors_of('layers { type: DATA }\nlayers { type: "Softmax" }')
    assert line.startswith("t:2:16: ")
    assert "rename every 'layers' to 'layer'" in line
    assert "write type: SOFTMAX without quotes" in line


def test_old_type_in_the_current_format_is_answered_with_the_new_name():
    (line,) = errors_of("layer { type: SOFTMAX_LOSS }")
    assert line == 't:1:15: type takes a string in quotes: "SoftmaxWithLoss"'


def test_string_without_end_is_placed_where_it_was_opened():
    (line,) = errors_of('name: "a"\nlayer {\n  name: "conv1\n  type: "Data" }\n')
    assert line == 't:3:9: the string opened here is not closed on its line: "conv1'


def test_cut_message_is_placed_where_it_was_opened():
    inner, outer = sorted(errors_of('layer { name: "a" }\nlayer {\n  pooling_param {\n    pad: 1'))[
        ::-1
    ]
    assert inner == "t:3:17: pooling_param opened here is not closed before the end"
    assert outer == "t:2:7: layer opened here is not closed before the end"


def test_missing_brace_is_found_at_the_next_layer_and_reading_goes_on():
    lines = errors_of(
        'layer { name: "a"\n  pooling_param { pad: 1 }\nlayer { name: "b" }\nlayer { pad: 1 }'
    )
    assert lines[0] == "t:1:7: layer opened here is not closed before layer on line 3"
    assert lines[1].startswith("t:4:9: LayerParameter has no field 'pad'")
    assert len(lines) == 2


def test_value_given_twice_names_both_places():
    (line,) = errors_of("layer { pooling_param { stride: 1\n stride: 2 } }")
    assert line == "t:2:2: stride takes one value and was given on line 1, column 25 already"
    (line,) = errors_of("layer { relu_param {} relu_param {} }")
    assert line == "t:1:23: relu_param takes one value and was given on line 1, column 9 already"


def test_list_for_a_single_value_is_refused_by_name():
    assert errors_of("device_id: [0, 1]", SOLVER) == [
        "t:1:12: device_id takes one value, not a list"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layer }", "1:7: layer takes a block { … }, not }"),
        ("name 'a'", "1:6: expected ':' after name"),
        ("name", "1:5: expected ':' and a value after name"),
        ("name: }", "1:7: expected a value of name, found }"),
        ("name: {}", "1:7: name takes a plain value, not a block or a list"),
        ("name: bare", '1:7: name takes a string in quotes: "bare"'),
        (r'name: "\q"', r"1:8: unknown escape '\\q'"),
        (r'name: "\ud800"', r"1:8: unknown escape '\\ud800'"),
        (r'name: "\400"', r"1:8: unknown escape '\\400'"),
        (r'name: "\377"', "1:7: name is not valid UTF-8; save the file as UTF-8"),
        ("layer: 3", "1:8: layer takes a block { … }, not 3"),
        ("layer { > ", "1:9: expected '}' to close layer opened on line 1, found '>'"),
        ("}", "1:1: '}' closes nothing"),
        (": 3", "1:1: expected a field of NetParameter, found :"),
        ("[a.b]: 3", "1:1: expected a field of NetParameter, found ["),
        ("@", "1:1: unexpected character '@'"),
        ("input_dim: 3x", "1:12: '3x' is not a number"),
        ("input_dim: [1, 2", "1:12: the list opened here is not closed"),
        ("input_dim: [1 2 3]", "1:15: expected ',' or ']', found 2"),
        ("input_dim: [1,]", "1:14: a list must not end in a comma"),
        ("input_dim: 1.0", "1:12: input_dim takes a whole number, not 1.0"),
        ("input_dim: 1e3", "1:12: input_dim takes a whole number, not 1e3"),
        ("input_dim: '1'", "1:12: input_dim takes a plain value without quotes, not '1'"),
        ("input_dim: -x", "1:12: input_dim takes a whole number, not -x"),
        ("input_dim: 08", "1:12: 08 begins with 0, so it is octal, but has other digits"),
        (
            "input_dim: 2147483648",
            "1:12: input_dim is 2147483648, outside -2147483648 to 2147483647 (int32)",
        ),
        ("force_backward: yes", "1:17: force_backward takes true or false, not yes"),
        ("force_backward: 2", "1:17: force_backward takes true or false, not 2"),
        ("state { phase: TRAINING }", "1:16: phase has no value TRAINING (did you mean TRAIN?)"),
        ("state { phase: 7 }", "1:16: phase has no value 7 (known: TRAIN, TEST)"),
        ("state { phase: 'TEST' }", "1:16: phase takes a name without quotes, not 'TEST'"),
        ("layer { loss_weight: 0x10 }", "1:22: loss_weight takes a decimal number, not 0x10"),
        ("layer { loss_weight: 1e39 }", "1:22: loss_weight is 1e39, too large for its type"),
        ("layer { loss_weight: many }", "1:22: loss_weight takes a number, not many"),
        ("layer { clip_param { max: 1 } }", "1:9: ClipParameter needs min"),
    ],
)
def test_each_error_has_its_place_and_reason(text, expected):
    assert f"t:{expected}" in errors_of(text)


def test_unknown_unsigned_negative_is_out_of_range():
    (line,) = errors_of("pad: -1", messages.PoolingParameter)
    assert line == "t:1:6: pad is -1, outside 0 to 4294967295 (uint32)"


def test_a_report_does_not_grow_without_bound():
    lines = errors_of("x: 1\n" * 1000)
    assert len(lines) == 51
    assert lines[-1] == "… and 950 more errors"


def test_deep_nesting_of_unknown_blocks_does_not_exhaust_the_stack():
    text = "a {" * 20000 + "}" * 20000
    assert len(errors_of(text)) == 1


# Files and places


def test_places_of_fields_and_of_what_has_no_place(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_bytes(
        b"\xef\xbb\xbf# \xb2\xe2\xca\xd4 (not UTF-8)\r\n"
        b'layer {\r\n  name: "c"\r\n  convolution_param {\r\n    kernel_size: [3,\r\n 5] } }'
    )
    places = read_net(path).source_map
    assert places.where(("layer", 0)) == f"{path}:2"
    assert places.where(("layer", 0, "convolution_param", "kernel_size", 1)) == f"{path}:6"
    assert places.where(("layer", 0, "convolution_param", "stride")) == f"{path}:4"
    assert places.where(("name",)) == str(path)


def test_files_that_are_missing_or_not_text(tmp_path):
    with pytest.raises(PrototxtError, match=r"cannot read .*none\.prototxt: No such file"):
        read_net(tmp_path / "none.prototxt")
    (tmp_path / "w.caffemodel").write_bytes(b"\x0a\x00\x00")
    with pytest.raises(PrototxtError, match="is not a text file"):
        read_net(tmp_path / "w.caffemodel")


def test_solver_prefix_comes_from_the_file_unless_given(tmp_path):
    path = tmp_path / "lenet.solver.prototxt"
    cases = {
        "": "lenet.solver",
        'snapshot_prefix: "a/b"': "a/b",
        f'snapshot_prefix: "{tmp_path}"': "",
    }
    for text, expected in cases.items():
        path.write_text(text)
        prefix = read_solver(path).message.snapshot_prefix
        assert prefix == (expected if "/" in expected else str(tmp_path / "lenet.solver"))


# Writer


def test_writer_prints_as_protobufs_c_plus_plus_printer_does():
    """Which differs from the Python printer in one thing: 1, not 1.0."""
    message = parse(ODD, NET).message
    message.layer[1].loss_weight[:] = [0.1, 1e-5, 100, 1234567, 3.1415927]
    expected = re.sub(r"(?m)(?<=\d)\.0$", "", text_format.MessageToString(message))
    assert write(message) == expected


def test_written_text_reads_back_equal_with_odd_strings_and_numbers():
    message = NET(name="ä\"'\\\n\x01\x7f\u2028")
    layer = message.layer.add(loss_weight=[0.1, 1 / 3, 16777217, 1e-45, 3.4e38, -0.0])
    blob = layer.blobs.add(double_data=[0.1, 1 / 3, 1e300, 5e-324])
    blob.raw_data = bytes(range(256))
    text = write(message)
    assert 'name: "ä\\"\\\'\\\\\\n\\001\\177' in text
    assert "loss_weight: 0.1\n" in text
    again = parse(text, NET).message
    assert again == message
    assert again.SerializeToString() == message.SerializeToString()


def test_lone_surrogate_in_a_string_built_in_python_is_an_error():
    assert errors_of('name: "\ud800"') == ["t:1:7: '\\ud800' is not a character"]
