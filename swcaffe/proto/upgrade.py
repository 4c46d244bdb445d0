"""Definitions of any age to the current form, as Caffe upgrades every net and solver that it reads.

Each step is a pure function; it takes places along, so that an error in an upgraded net still names
the line of the user's file. A step with nothing to do returns what it was given.
"""

from __future__ import annotations

from dataclasses import replace

from swcaffe.errors import PrototxtError
from swcaffe.proto import messages
from swcaffe.proto.layer_types import V1_TYPES
from swcaffe.proto.messages import Field, Message, MessageClass, is_repeated
from swcaffe.proto.source_map import FieldPath, Parsed, SourceMap
from swcaffe.proto.upgrade_v0 import v0_to_v1

__all__ = [
    "batch_norm_rates_to_zero",
    "data_to_transform",
    "inputs_to_layer",
    "upgrade",
    "upgrade_net",
    "upgrade_solver",
    "v1_to_current",
]

Moves = dict[FieldPath, FieldPath | None]

_SOLVER_TYPES = {
    "SGD": "SGD",
    "NESTEROV": "Nesterov",
    "ADAGRAD": "AdaGrad",
    "RMSPROP": "RMSProp",
    "ADADELTA": "AdaDelta",
    "ADAM": "Adam",
}
_INLINE_NETS = ("train_net_param", "test_net_param", "net_param")
_V1_DATA = {
    "DATA": "data_param",
    "IMAGE_DATA": "image_data_param",
    "WINDOW_DATA": "window_data_param",
}
_TRANSFORM_FIELDS = ("scale", "mean_file", "crop_size", "mirror")
_V1_PARAM_LISTS = {
    "param": "name",
    "blob_share_mode": "share_mode",
    "blobs_lr": "lr_mult",
    "weight_decay": "decay_mult",
}
"""Lists of V1LayerParameter, one entry per blob -> the field of ParamSpec that took their place."""


def upgrade(parsed: Parsed) -> Parsed:
    """A NetParameter in the current form. Raises PrototxtError for one that has none."""
    for step in (
        v0_to_v1,
        data_to_transform,
        v1_to_current,
        inputs_to_layer,
        batch_norm_rates_to_zero,
    ):
        parsed = step(parsed)
    return parsed


def upgrade_net(net: Message, name: str = "net") -> Message:
    """`upgrade` for a net without places: binary, or made in Python; `name` stands in errors."""
    return upgrade(Parsed(net, SourceMap(name))).message


def data_to_transform(parsed: Parsed) -> Parsed:
    """V1 data layers: scale, mean_file, crop_size and mirror go to `transform_param`.

    Layers of the current format keep them, and (as in Caffe) do not obey them.
    """
    found: list[tuple[int, str, str]] = []
    for i, layer in enumerate(parsed.message.layers):
        own = _V1_DATA.get(messages.V1LayerParameter.LayerType.Name(layer.type))
        if own is not None:
            held = getattr(layer, own)
            found += [(i, own, name) for name in _TRANSFORM_FIELDS if held.HasField(name)]
    if not found:
        return parsed
    net = _without(parsed.message)
    moves: Moves = {}
    for i, own, name in found:
        layer = net.layers[i]
        setattr(layer.transform_param, name, getattr(getattr(layer, own), name))
        getattr(layer, own).ClearField(name)
        moves["layers", i, own, name] = ("layers", i, "transform_param", name)
    return Parsed(net, parsed.source_map.moved(moves), parsed.warnings)


def v1_to_current(parsed: Parsed) -> Parsed:
    """`layers` with enum types and lists per blob to `layer` with string types and `param`."""
    old, places = parsed.message, parsed.source_map
    if not old.layers:
        return parsed
    if old.layer:
        raise PrototxtError(
            f"the net has both 'layer' (first: {places.where(('layer', 0))}) and 'layers' "
            f"(first: {places.where(('layers', 0))})",
            where=places.where(("layers", 0)),
            fix="write all as 'layer' with types in quotes, or all as 'layers' with V1 types",
        )
    net = _without(old, "layers")
    moves: Moves = {}
    for i, layer in enumerate(old.layers):
        _v1_layer(layer, net.layer.add())
        moves["layers", i] = ("layer", i)
        for name, new in _V1_PARAM_LISTS.items():
            for j in range(len(getattr(layer, name))):
                moves["layers", i, name, j] = ("layer", i, "param", j, new)
    note = f"{places.where()}: the net is in the old 'layers' format; read as the current one"
    return Parsed(net, places.moved(moves), (*parsed.warnings, note))


def _v1_layer(old: Message, new: Message) -> None:
    for field, value in old.ListFields():
        if field.name == "type":
            new.type = V1_TYPES[messages.V1LayerParameter.LayerType.Name(value)]
        elif field.name in _V1_PARAM_LISTS:
            while len(new.param) < len(value):
                new.param.add()
            for spec, entry in zip(new.param, value, strict=False):
                setattr(spec, _V1_PARAM_LISTS[field.name], entry)
        else:
            _put(new, field, value)


def inputs_to_layer(parsed: Parsed) -> Parsed:
    """`input` with `input_shape` or `input_dim` to a first layer of type Input named "input".

    Without shapes, as in old weight files, the names are dropped.
    """
    old, places = parsed.message, parsed.source_map
    if not old.input:
        return parsed
    net = _without(old, "input", "input_shape", "input_dim", "layer")
    if not old.input_shape and not old.input_dim:
        net.layer.extend(old.layer)
        return replace(parsed, message=net)
    layer = messages.LayerParameter(name="input", type="Input", top=old.input)
    layer.input_param.shape.extend(_input_shapes(old, places))
    net.layer.append(layer)
    net.layer.extend(old.layer)
    moves: Moves = {("layer", i): ("layer", i + 1) for i in range(len(old.layer))}
    moves["input",] = ("layer", 0, "top")
    moves["input_shape",] = shapes = ("layer", 0, "input_param", "shape")
    for i in range(len(old.input_dim)):
        moves["input_dim", i] = (*shapes, i // 4, "dim", i % 4)
    lines = dict(places.moved(moves).lines)
    if ("input", 0) in places.lines:
        lines["layer", 0] = places.lines["input", 0]
    return Parsed(net, SourceMap(places.file, lines), parsed.warnings)


def _input_shapes(net: Message, places: SourceMap) -> list[Message]:
    """One BlobShape per input; `input_shape` wins over `input_dim`."""
    inputs, shapes, dims = len(net.input), len(net.input_shape), len(net.input_dim)
    if shapes:
        wrong = shapes != inputs and f"{shapes} input_shape"
    else:
        wrong = dims != 4 * inputs and f"{dims} input_dim (four are needed for each)"
    if wrong:
        raise PrototxtError(
            f"the net has {inputs} input but {wrong}",
            where=places.where(("input_shape" if shapes else "input_dim", 0)),
            fix="give one input_shape, or four input_dim, for each input",
        )
    if shapes:
        return list(net.input_shape)
    return [messages.BlobShape(dim=net.input_dim[4 * i : 4 * i + 4]) for i in range(inputs)]


def batch_norm_rates_to_zero(parsed: Parsed) -> Parsed:
    """BatchNorm layers with three `param`: the statistics are never to be moved by a solver."""
    chosen = [
        i
        for i, layer in enumerate(parsed.message.layer)
        if layer.type == "BatchNorm"
        and len(layer.param) == 3
        and any(spec.lr_mult != 0 or spec.decay_mult != 0 for spec in layer.param)
    ]
    if not chosen:
        return parsed
    net = _without(parsed.message)
    for i in chosen:
        for spec in net.layer[i].param:
            spec.lr_mult = spec.decay_mult = 0
    return replace(parsed, message=net)


def upgrade_solver(parsed: Parsed) -> Parsed:
    """A SolverParameter with `type` in place of `solver_type`, and its inline nets upgraded.

    Raises PrototxtError if both are given.
    """
    solver, places = _without(parsed.message), parsed.source_map
    if solver.HasField("solver_type"):
        if solver.HasField("type"):
            raise PrototxtError(
                f"the solver has both type (at {places.where(('type',))}) and solver_type",
                where=places.where(("solver_type",)),
                fix="delete solver_type, the old spelling",
            )
        solver.type = _SOLVER_TYPES[messages.SolverParameter.SolverType.Name(solver.solver_type)]
        solver.ClearField("solver_type")
        places = places.moved({("solver_type",): ("type",)})
    result = Parsed(solver, places, parsed.warnings)
    for field, value in parsed.message.ListFields():
        if field.name in _INLINE_NETS:
            for i in range(len(value)) if is_repeated(field) else (None,):
                result = _upgrade_inside(result, field.name, i)
    return result


def _upgrade_inside(solver: Parsed, name: str, index: int | None) -> Parsed:
    """Upgrade, in place, one net of a solver message that is ours."""
    net = getattr(solver.message, name)
    prefix: FieldPath = (name,) if index is None else (name, index)
    if index is not None:
        net = net[index]
    places = solver.source_map
    new = upgrade(Parsed(net, places.under(prefix)))
    if new.message is net:
        return solver
    net.CopyFrom(new.message)
    lines = {
        path: n
        for path, n in places.lines.items()
        if path[: len(prefix)] != prefix or path == prefix
    }
    lines.update((prefix + path, n) for path, n in new.source_map.lines.items() if path)
    return Parsed(solver.message, SourceMap(places.file, lines), (*solver.warnings, *new.warnings))


def _without(message: Message, *names: str) -> Message:
    """A copy of a message, all fields but those named."""
    message_class: MessageClass = type(message)
    copy = message_class()
    for field, value in message.ListFields():
        if field.name not in names:
            _put(copy, field, value)
    return copy


def _put(target: Message, field: Field, value: Message) -> None:
    """Copy one field of another message to the field of the same name of `target`."""
    if is_repeated(field):
        getattr(target, field.name).extend(value)
    elif field.message_type is not None:
        getattr(target, field.name).CopyFrom(value)
    else:
        setattr(target, field.name, value)
