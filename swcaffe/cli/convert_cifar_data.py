"""`swcaffe convert_cifar_data`: CIFAR-10's binary batches become databases that Caffe reads."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.cli.flags import Flags
from swcaffe.data.convert_cifar import convert_cifar_data

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Convert; 0."""
    flags = Flags(
        "convert_cifar_data",
        "Write OUT_DIR/cifar10_{train,test}_TYPE from the binary batches in IN_DIR.",
    )
    flags.add_argument("in_dir", metavar="IN_DIR", help="folder of data_batch_1.bin …")
    flags.add_argument("out_dir", metavar="OUT_DIR")
    flags.add_argument("db_type", metavar="TYPE", choices=["lmdb", "leveldb"])
    args = flags.parse(argv)
    for name, count in convert_cifar_data(args.in_dir, args.out_dir, args.db_type).items():
        print(f"{count} records in {args.out_dir}/{name}")
    return 0
