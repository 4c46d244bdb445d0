"""`python -m swcaffe` is the command `swcaffe`."""

from __future__ import annotations

from swcaffe.cli.main import console_main

__all__: list[str] = []

if __name__ == "__main__":
    console_main()
