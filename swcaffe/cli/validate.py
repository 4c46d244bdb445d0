"""`swcaffe validate`: the model of the SW26010 against what was published about it."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.cli.flags import Flags
from swcaffe.errors import UsageError, unknown_name
from swcaffe.files import write_atomically

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Compare; 0, whatever the errors are."""
    flags = Flags(
        "validate", "Compare the model of the SW26010 with published tables, figure by figure."
    )
    flags.add_argument(
        "--output", default="", metavar="MD", help="file for the whole page (summary only)"
    )
    flags.add_argument("tables", nargs="*", metavar="TABLE", help="names of tables (all)")
    args = flags.parse(argv)
    from swcaffe.report.validate import TABLES, page, summary

    for name in args.tables:
        if name not in TABLES:
            raise UsageError(
                unknown_name("published table", name, list(TABLES)), fix="swcaffe validate"
            )
    tables = [TABLES[name]() for name in args.tables or TABLES]
    print("\n".join(summary(tables)))
    if args.output:
        with write_atomically(args.output) as part:
            part.write_text(page(tables), encoding="utf-8")
        print(f"wrote {args.output}")
    return 0
