"""`swcaffe convert_imageset`: pictures in a list become a database that Caffe reads."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.cli.flags import Flags, boolean, not_negative
from swcaffe.data.convert_imageset import convert_imageset

__all__ = ["run"]


def _flags() -> Flags:
    flags = Flags(
        "convert_imageset",
        "Put the pictures named in LISTFILE (lines `path label`, paths from ROOTFOLDER/) into\n"
        "the new database DB_NAME.",
    )
    for name, text in (
        ("gray", "one channel instead of blue, green, red"),
        ("shuffle", "shuffle the list first"),
        ("check_size", "refuse pictures of different sizes"),
        ("encoded", "store compressed pictures"),
    ):
        flags.add_argument(
            f"--{name}", type=boolean, default=False, metavar="BOOL", help=f"{text} (false)"
        )
    flags.add_argument(
        "--backend", choices=["lmdb", "leveldb"], default="lmdb", help="of DB_NAME (lmdb)"
    )
    flags.add_argument(
        "--resize_width", type=not_negative, default=0, metavar="PX", help="0: as it is (0)"
    )
    flags.add_argument(
        "--resize_height", type=not_negative, default=0, metavar="PX", help="0: as it is (0)"
    )
    flags.add_argument(
        "--encode_type", default="", metavar="EXT", help="compress as png, jpg, … (the file's kind)"
    )
    flags.add_argument("--seed", type=int, default=0, metavar="N", help="of the shuffle (0)")
    flags.add_argument("rootfolder", metavar="ROOTFOLDER/")
    flags.add_argument("listfile", metavar="LISTFILE")
    flags.add_argument("db_name", metavar="DB_NAME")
    return flags


def run(argv: Sequence[str]) -> int:
    """Convert; 0."""
    args = vars(_flags().parse(argv))
    del args["debug"]
    print(
        convert_imageset(args.pop("rootfolder"), args.pop("listfile"), args.pop("db_name"), **args)
    )
    return 0
