"""`swcaffe convert_mnist_data`: idx files become a database that Caffe reads."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.cli.flags import Flags
from swcaffe.data.convert_mnist import convert_mnist_data

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Convert; 0."""
    flags = Flags("convert_mnist_data", "Put MNIST's images and labels into the new database DB.")
    flags.add_argument("--backend", choices=["lmdb", "leveldb"], default="lmdb", help="(lmdb)")
    flags.add_argument("images", metavar="IMAGES", help="idx3 file, compressed or not")
    flags.add_argument("labels", metavar="LABELS", help="idx1 file, compressed or not")
    flags.add_argument("db", metavar="DB")
    args = flags.parse(argv)
    count = convert_mnist_data(args.images, args.labels, args.db, backend=args.backend)
    print(f"{count} records in {args.db}")
    return 0
