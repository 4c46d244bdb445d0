"""The command `swcaffe`: finds the command asked for, runs it, turns errors into exit codes.

Exit codes: 0 done; 1 an error in the user's files or data; 2 wrong usage; 130 and 143 stopped by
SIGINT and SIGTERM (after a snapshot, when training).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import swcaffe
from swcaffe.errors import SwcaffeError, UsageError, unknown_name

__all__ = ["COMMANDS", "console_main", "main"]

COMMANDS = {
    "train": "train or fine-tune a net",
    "test": "score a trained net",
    "time": "measure a net layer by layer, and predict its time on the SW26010",
    "device_query": "describe the engines and the modelled machine",
    "convert_imageset": "put images from a list into a database",
    "convert_mnist_data": "put MNIST files into a database",
    "convert_cifar_data": "put CIFAR-10 files into databases",
    "compute_image_mean": "write the mean image of a database",
    "deploy": "make a deploy prototxt from a training one",
    "plot": "draw loss and accuracy from a training log",
    "codegen": "write a net's SW26010 programs as C, for the machine and for gcc",
    "validate": "compare the model of the SW26010 with published tables",
}
"""Command -> one line of help; module swcaffe.cli.<command> has `run(argv) -> exit code`."""


def usage() -> str:
    """The text of `swcaffe --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            f"swcaffe {swcaffe.__version__}: Caffe-compatible training on an emulated SW26010",
            "",
            "usage: swcaffe COMMAND [flags]        (swcaffe COMMAND --help lists the flags)",
            "",
            *lines,
        ]
    )


def split_command(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The command and the other words; as in Caffe, flags may stand before it."""
    free = [
        i
        for i, word in enumerate(argv)
        if word in COMMANDS and not (i and argv[i - 1].startswith("-") and "=" not in argv[i - 1])
    ]
    found = free or [i for i, word in enumerate(argv) if word in COMMANDS]
    if not found:
        return None, list(argv)
    at = found[0]
    return argv[at], [*argv[:at], *argv[at + 1 :]]


def run(argv: Sequence[str]) -> int:
    """Run one command line; raises SwcaffeError."""
    command, rest = split_command(argv)
    if command is None:
        words = [word for word in rest if not word.startswith("-")]
        if "--version" in rest or "-version" in rest:
            print(f"swcaffe {swcaffe.__version__}")
            return 0
        if words:
            raise UsageError(unknown_name("command", words[0], COMMANDS), fix="swcaffe --help")
        asked = any(word in ("-h", "-help", "--help", "help") for word in rest)
        print(usage(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    importlib.import_module("swcaffe.log").configure()  # loads numpy, help need not
    module = importlib.import_module(f"swcaffe.cli.{command}")
    code: int = module.run(rest)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; errors go to standard error in two lines."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = any(word.lstrip("-") in ("debug", "debug=true") for word in words)
    try:
        return run(words)
    except SwcaffeError as error:
        if debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # of the terminal, the disk or the network, and no part's to explain
        if debug:
            traceback.print_exc()
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}{error.strerror or error}", file=sys.stderr)
        print(
            "  fix: check the place that is written to or read; --debug shows it", file=sys.stderr
        )
        return 1
    except MemoryError as error:
        print(f"error: out of memory {error}\n  fix: lower the batch size", file=sys.stderr)
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        kind = type(error).__name__
        print(f"error: internal error, {kind}: {error}", file=sys.stderr)
        print("  fix: this is a fault of swcaffe; --debug shows the traceback", file=sys.stderr)
        return 1


def console_main() -> None:
    """Entry point of the `swcaffe` script."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C finds nothing left to stop
    sys.exit(code)
