"""Compile proto/*.proto to swcaffe/proto/schema.desc (needs grpcio-tools, for development only).

Both files become one FileDescriptorProto: every `extend` of swcaffe.proto is folded into the
message that it extends, which makes it an ordinary field. The descriptors that swcaffe loads
therefore hold no extension and no second file, and need no compiler.

    python tools/gen_proto.py            write schema.desc
    python tools/gen_proto.py --check    exit 1 if schema.desc is out of date
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

__all__ = ["compile_schema", "main"]

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
TARGET = ROOT / "swcaffe" / "proto" / "schema.desc"
SCHEMA_NAME = "swcaffe/schema.proto"


def compile_schema() -> FileDescriptorSet:
    """The descriptor set of proto/caffe.proto with proto/swcaffe.proto folded in."""
    from grpc_tools import protoc  # type: ignore[import-untyped, unused-ignore]

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "raw.desc"
        arguments = [f"-I{SOURCES}", f"--descriptor_set_out={out}", "caffe.proto", "swcaffe.proto"]
        if protoc.main(["protoc", *arguments]):
            raise SystemExit("protoc failed")
        caffe, ours = FileDescriptorSet.FromString(out.read_bytes()).file
    return FileDescriptorSet(file=[_fold(caffe, ours)])


def _fold(caffe: FileDescriptorProto, ours: FileDescriptorProto) -> FileDescriptorProto:
    merged = FileDescriptorProto(name=SCHEMA_NAME, package=caffe.package)
    for source in (caffe, ours):
        merged.message_type.extend(source.message_type)
        merged.enum_type.extend(source.enum_type)
    by_name = {f".{caffe.package}.{message.name}": message for message in merged.message_type}
    for extension in ours.extension:
        field = by_name[extension.extendee].field.add()
        field.CopyFrom(extension)
        field.ClearField("extendee")
    for message in merged.message_type:
        _strip(message)
    return merged


def _strip(message: DescriptorProto) -> None:
    """Drop what only other users of a descriptor need, so that any protoc gives the same bytes."""
    message.ClearField("extension_range")
    for field in message.field:
        field.ClearField("json_name")


def main(arguments: list[str]) -> int:
    """Write schema.desc, or with `--check` compare it; the exit code."""
    schema = compile_schema()
    if arguments == ["--check"]:
        current = FileDescriptorSet.FromString(TARGET.read_bytes())
        if current != schema:
            print(f"{TARGET} is out of date: run tools/gen_proto.py", file=sys.stderr)
        return int(current != schema)
    TARGET.write_bytes(schema.SerializeToString(deterministic=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
