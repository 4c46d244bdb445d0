"""The oldest net format, V0 (a `layer` inside each `layers`, padding as a layer), to V1."""

from __future__ import annotations

from swcaffe.errors import PrototxtError, unknown_name
from swcaffe.proto import messages
from swcaffe.proto.layer_types import V0_TYPES
from swcaffe.proto.messages import Message
from swcaffe.proto.source_map import FieldPath, Parsed, SourceMap

__all__ = ["v0_to_v1"]

_OWN_PARAM = {
    "concat": "concat_param",
    "conv": "convolution_param",
    "data": "data_param",
    "dropout": "dropout_param",
    "hdf5_data": "hdf5_data_param",
    "images": "image_data_param",
    "infogain_loss": "infogain_loss_param",
    "innerproduct": "inner_product_param",
    "lrn": "lrn_param",
    "pool": "pooling_param",
    "window_data": "window_data_param",
}
"""V0 type -> the message of V1 that holds its own parameters."""

_OWN_FIELDS = {
    "num_output": ("num_output", "conv innerproduct"),
    "biasterm": ("bias_term", "conv innerproduct"),
    "weight_filler": ("weight_filler", "conv innerproduct"),
    "bias_filler": ("bias_filler", "conv innerproduct"),
    "pad": ("pad", "conv pool"),
    "kernelsize": ("kernel_size", "conv pool"),
    "stride": ("stride", "conv pool"),
    "group": ("group", "conv"),
    "pool": ("pool", "pool"),
    "dropout_ratio": ("dropout_ratio", "dropout"),
    "local_size": ("local_size", "lrn"),
    "alpha": ("alpha", "lrn"),
    "beta": ("beta", "lrn"),
    "k": ("k", "lrn"),
    "source": ("source", "data hdf5_data images window_data infogain_loss"),
    "batchsize": ("batch_size", "data hdf5_data images window_data"),
    "rand_skip": ("rand_skip", "data images"),
    "shuffle_images": ("shuffle", "images"),
    "new_height": ("new_height", "images"),
    "new_width": ("new_width", "images"),
    "concat_dim": ("concat_dim", "concat"),
    "det_fg_threshold": ("fg_threshold", "window_data"),
    "det_bg_threshold": ("bg_threshold", "window_data"),
    "det_fg_fraction": ("fg_fraction", "window_data"),
    "det_context_pad": ("context_pad", "window_data"),
    "det_crop_mode": ("crop_mode", "window_data"),
}
"""V0 field -> its name in the message of `_OWN_PARAM`, and the V0 types that may have it."""

_TRANSFORM_FIELDS = {
    "scale": "scale",
    "meanfile": "mean_file",
    "cropsize": "crop_size",
    "mirror": "mirror",
}
_LAYER_FIELDS = ("name", "blobs", "blobs_lr", "weight_decay")
_NET_FIELDS = ("name", "input", "input_dim", "force_backward")


def v0_to_v1(parsed: Parsed) -> Parsed:
    """A net with V0 layers to V1; V1 layers among them stay. Raises PrototxtError.

    Padding layers are folded into the convolution or pooling that they feed. A V0 field on a layer
    type that has no use for it is left out with a warning, as in Caffe.
    """
    if not any(layer.HasField("layer") for layer in parsed.message.layers):
        return parsed
    old, places = parsed.message, parsed.source_map
    net = messages.NetParameter()
    for name in _NET_FIELDS:
        _put(net, name, old, name)
    net.input_shape.extend(old.input_shape)
    pads = _padding_sources(old, places)
    moves: dict[FieldPath, FieldPath | None] = {}
    warnings = [f"{places.where()}: the net is in the oldest layer format; read as the current one"]
    for i, layer in enumerate(old.layers):
        before: FieldPath = ("layers", i)
        if _v0_type(layer) == "padding":
            moves[before] = None
            continue
        after: FieldPath = ("layers", len(net.layers))
        moves[before] = after
        new = net.layers.add()
        if not layer.HasField("layer"):
            new.CopyFrom(layer)
            continue
        inner = _with_padding(layer, old.layers[pads[i]] if i in pads else None)
        new.top.extend(layer.top)
        new.bottom.extend(layer.bottom if i not in pads else old.layers[pads[i]].bottom)
        new_paths = _layer(inner, new, places, before, warnings)
        moves.update({(*before, "layer", name): after + path for name, path in new_paths.items()})
        moves[(*before, "layer")] = after
        if i in pads:
            moves["layers", pads[i], "layer", "pad"] = after + new_paths["pad"]
    return Parsed(net, places.moved(moves), (*parsed.warnings, *warnings))


def _v0_type(layer: Message) -> str:
    return layer.layer.type if layer.HasField("layer") else ""


def _padding_sources(net: Message, places: SourceMap) -> dict[int, int]:
    """Index of each layer that is fed by a padding layer -> index of that padding layer."""
    producers: dict[str, int] = dict.fromkeys(net.input, -1)
    found: dict[int, int] = {}
    for i, layer in enumerate(net.layers):
        for j, blob in enumerate(layer.bottom):
            if blob not in producers:
                raise PrototxtError(
                    f"no layer before {layer.layer.name!r} makes its bottom {blob!r}",
                    where=places.where(("layers", i, "bottom", j)),
                    fix="correct the name, or put the layer that makes it before",
                )
            source = producers[blob]
            if source >= 0 and _v0_type(net.layers[source]) == "padding":
                _check_padding(net, source, i, places)
                found[i] = source
        producers.update(dict.fromkeys(layer.top, i))
    return found


def _check_padding(net: Message, source: int, consumer: int, places: SourceMap) -> None:
    padding, layer = net.layers[source], net.layers[consumer]
    if _v0_type(layer) not in ("conv", "pool") or len(layer.bottom) != 1:
        raise PrototxtError(
            f"padding layer {padding.layer.name!r} feeds {layer.layer.name!r} "
            f"({_v0_type(layer) or 'not V0'}); only a conv or pool with one bottom may follow it",
            where=places.where(("layers", consumer)),
            fix="remove it and set pad in the layer that needs it",
        )
    if len(padding.bottom) != 1 or len(padding.top) != 1:
        raise PrototxtError(
            f"padding layer {padding.layer.name!r} has {len(padding.bottom)} bottoms and "
            f"{len(padding.top)} tops; it takes one of each",
            where=places.where(("layers", source)),
            fix="give it one bottom and one top",
        )


def _with_padding(layer: Message, padding: Message | None) -> Message:
    """The V0 parameters of a layer, with the pad of the padding layer before it."""
    if padding is None:
        return layer.layer
    inner = messages.V0LayerParameter()
    inner.CopyFrom(layer.layer)
    inner.pad = padding.layer.pad
    return inner


def _layer(
    old: Message, new: Message, places: SourceMap, path: FieldPath, warnings: list[str]
) -> dict[str, FieldPath]:
    """Fill a V1 layer from V0 parameters; where each field went, from the layer down."""
    kind = old.type
    if kind not in V0_TYPES:
        raise PrototxtError(
            unknown_name("V0 layer type", kind, V0_TYPES),
            where=places.where((*path, "layer", "type")),
            fix="give one of these",
        )
    new.type = messages.V1LayerParameter.LayerType.Value(V0_TYPES[kind])
    went: dict[str, FieldPath] = {"type": ("type",)}
    for field, _ in old.ListFields():
        name = field.name
        own, kinds = _OWN_FIELDS.get(name, ("", ""))
        if name == "type":
            continue
        if name in _LAYER_FIELDS:
            target: FieldPath = (name,)
        elif name in _TRANSFORM_FIELDS:
            target = ("transform_param", _TRANSFORM_FIELDS[name])
        elif kind in kinds.split():
            target = (_OWN_PARAM[kind], own)
        elif name == "hdf5_output_param" and kind == "hdf5_output":
            target = (name,)
        else:
            place = places.where((*path, "layer", name))
            warnings.append(f"{place}: a {kind} layer has no use for {name}; left out")
            continue
        holder = new if len(target) == 1 else getattr(new, str(target[0]))
        went[name] = (*target, 0) if _put(holder, str(target[-1]), old, name) else target
    return went


def _put(target: Message, new_name: str, source: Message, name: str) -> bool:
    """Copy a field, if set, to a field of another name; whether a single value went into a list."""
    if not any(field.name == name for field, _ in source.ListFields()):
        return False
    value, there = getattr(source, name), getattr(target, new_name)
    if hasattr(there, "extend"):
        single = not hasattr(value, "extend")
        there.extend([value] if single else value)
        return single
    if hasattr(there, "CopyFrom"):
        there.CopyFrom(value)
    else:
        setattr(target, new_name, value)
    return False
