"""Caffe's flag spellings on top of argparse.

`-solver x`, `--solver x`, `-solver=x`, `--on-bad x` for `--on_bad x`; booleans `-shuffle`,
`-noshuffle`, `-shuffle=false`; flags may stand before the command.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from swcaffe.errors import UsageError, unknown_name

__all__ = ["Flags", "boolean", "not_negative", "positive"]


def boolean(text: str) -> bool:
    """gflags' words for true and false."""
    known = {"true": True, "t": True, "yes": True, "y": True, "1": True}
    known |= {"false": False, "f": False, "no": False, "n": False, "0": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.lower()]


def positive(text: str) -> int:
    """A whole number above zero."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """A whole number from zero on."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return value


class Flags(argparse.ArgumentParser):
    """An argument parser whose errors are UsageError and whose flags may be spelt as Caffe's."""

    def __init__(self, command: str, description: str) -> None:
        """The parser of `swcaffe COMMAND`."""
        super().__init__(
            prog=f"swcaffe {command}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.command = command
        self.add_argument(
            "--debug", type=boolean, default=False, metavar="BOOL", help="show tracebacks (false)"
        )

    def error(self, message: str) -> NoReturn:
        """Wrong usage: exit code 2."""
        raise UsageError(f"swcaffe {self.command}: {message}", fix=f"swcaffe {self.command} --help")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse arguments in any of Caffe's spellings. Raises UsageError."""
        return self.parse_args(self._canonical(argv))

    def _canonical(self, argv: Sequence[str]) -> list[str]:
        """Every flag as `--name=value`, flags first, positional arguments behind `--`."""
        flags: list[str] = []
        positional: list[str] = []
        rest = list(argv)
        while rest:
            word = rest.pop(0)
            if word == "--":
                positional += rest
                break
            if word in ("-h", "-help", "--help"):
                flags.append("--help")
            elif not word.startswith("-") or word == "-" or _is_number(word):
                positional.append(word)
            else:
                flags.append(self._flag(word, rest))
        places = [action.nargs for action in self._actions if not action.option_strings]
        if len(positional) > len(places) and "*" not in places and "--help" not in flags:
            self.error(f"unexpected argument {positional[len(places)]!r}")
        return [*flags, "--", *positional] if positional else flags

    def _flag(self, word: str, rest: list[str]) -> str:
        name, equals, value = word.lstrip("-").partition("=")
        action = self._find(name)
        if action is None and name.startswith("no") and not equals:
            negated = self._find(name[2:])
            if negated is not None and negated.type is boolean:
                return f"--{negated.dest}=false"
        if action is None:
            if len(word.partition("=")[0].lstrip("-")) == 1 and not word.startswith("--"):
                self.error(f"unknown flag {word!r}")
            names = [a.dest for a in self._actions if a.option_strings and a.dest != "help"]
            self.error(unknown_name("flag", name, names))
        if not equals:
            if action.type is boolean:
                value = "true"
            elif rest:
                value = rest.pop(0)
            else:
                self.error(f"flag --{action.dest} needs a value")
        return f"{action.option_strings[0]}={value}"

    def _find(self, name: str) -> argparse.Action | None:
        wanted = name.replace("-", "_")
        for action in self._actions:
            if wanted in (o.lstrip("-").replace("-", "_") for o in action.option_strings):
                return action
        return None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
