"""Reading and writing net and solver definitions; every error of a file comes in one report.

    parsed = read_net("train_val.prototxt")
    parsed.message.layer[3].name
    parsed.source_map.where(("layer", 3, "convolution_param"))    "train_val.prototxt:57"

The whole text format of protobuf is read. Where it leaves room, we read what Caffe's own reader
reads; extensions in brackets, which no Caffe file has, are refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from swcaffe.errors import PrototxtError
from swcaffe.proto import messages
from swcaffe.proto.messages import MessageClass
from swcaffe.proto.parser import Complaint, Parser
from swcaffe.proto.source_map import Parsed, SourceMap
from swcaffe.proto.upgrade import upgrade, upgrade_solver
from swcaffe.proto.writer import write

__all__ = ["Parsed", "SourceMap", "parse", "read", "read_net", "read_solver", "write"]

_MOST_ERRORS = 50


def parse(
    text: str, message_class: MessageClass, *, name: str = "<text>", lenient: bool = False
) -> Parsed:
    """The message that `text` describes; `name` stands for the file in places and errors.

    Raises PrototxtError with one line per error, each with its place. If `lenient`, fields that the
    schema does not have are left out with a warning.
    """
    parser = Parser(text, message_class, lenient=lenient)
    message = parser.run()
    if parser.errors:
        raise _error(name, sorted(set(parser.errors)))
    warnings = tuple(_placed(name, warning) for warning in parser.warnings)
    return Parsed(message, SourceMap(name, parser.lines), warnings)


def read(path: str | Path, message_class: MessageClass, *, lenient: bool = False) -> Parsed:
    """The message in a text file, as it stands there. Raises PrototxtError."""
    try:
        raw = Path(path).read_bytes()
    except OSError as cause:
        raise PrototxtError(
            f"cannot read {path}: {cause.strerror}",
            fix="check the path and that the file may be read",
        ) from cause
    if b"\0" in raw:
        raise PrototxtError(
            f"{path} is not a text file",
            fix="give a prototxt here; weights go to --weights, solver states to --snapshot",
        )
    # Comments may be in any encoding; a string that is not UTF-8 is reported where it stands.
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return parse(text, message_class, name=os.fspath(path), lenient=lenient)


def read_net(path: str | Path, *, lenient: bool = False) -> Parsed:
    """The net in a prototxt file of any age, upgraded to the current form. Raises PrototxtError."""
    return upgrade(read(path, messages.NetParameter, lenient=lenient))


def read_solver(path: str | Path, *, lenient: bool = False) -> Parsed:
    """The solver in a prototxt file, upgraded, as are nets written inside it.

    A missing `snapshot_prefix` becomes the path without its extension; one that is a folder gets
    the file's stem appended. Raises PrototxtError.
    """
    parsed = upgrade_solver(read(path, messages.SolverParameter, lenient=lenient))
    solver = parsed.message
    if not solver.HasField("snapshot_prefix"):
        solver.snapshot_prefix = os.fspath(Path(path).with_suffix(""))
    elif Path(solver.snapshot_prefix).is_dir():
        solver.snapshot_prefix = os.fspath(Path(solver.snapshot_prefix) / Path(path).stem)
    return parsed


def _placed(name: str, complaint: Complaint) -> str:
    return f"{name}:{complaint.line}:{complaint.column}: {complaint.text}"


def _error(name: str, errors: Sequence[Complaint]) -> PrototxtError:
    """All errors as one: `where` is the place of the first, the others stand in their lines."""
    first, *others = errors[:_MOST_ERRORS]
    lines = [first.text, *(_placed(name, error) for error in others)]
    if len(errors) > _MOST_ERRORS:
        lines.append(f"… and {len(errors) - _MOST_ERRORS} more errors")
    return PrototxtError("\n".join(lines), where=f"{name}:{first.line}:{first.column}")
