"""`swcaffe compute_image_mean`: the mean picture of a database, for mean_file or mean_value."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.cli.flags import Flags
from swcaffe.data.mean import compute_image_mean

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Compute; 0."""
    flags = Flags(
        "compute_image_mean",
        "Print the mean of each channel of a database's pictures; write the mean picture to\n"
        "OUTPUT_FILE (a binary BlobProto, as mean_file takes) if given.",
    )
    flags.add_argument("--backend", choices=["lmdb", "leveldb"], default="lmdb", help="(lmdb)")
    flags.add_argument("input_db", metavar="INPUT_DB")
    flags.add_argument("output_file", metavar="OUTPUT_FILE", nargs="?")
    args = flags.parse(argv)
    print(compute_image_mean(args.input_db, args.output_file, backend=args.backend))
    return 0
