"""Prototxt text to tokens. Bad characters, numbers and strings are reported and stepped over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["BROKEN_STRING", "Kind", "Report", "Token", "tokenize", "unescape"]

Kind: TypeAlias = Literal["name", "number", "string", "mark", "end"]


class Token(NamedTuple):
    """A piece of text and its place; line and column count from 1.

    A mark is one character of `{}<>[]:;,-`; a string keeps its quotes; the end has no text.
    """

    kind: Kind
    text: str
    line: int
    column: int


Report: TypeAlias = Callable[[int, int, str], None]
"""Takes the line, the column and the text of an error."""

BROKEN_STRING = '"'
"""Text of the token that stands for a string which its line does not close; its value is empty."""

_TOKEN = re.compile(
    r"""
      (?P<blank>       [ \t\r\n\f\v]+ | \#[^\n]* )
    | (?P<name>        [A-Za-z_]\w* )
    | (?P<number>      (?: 0[xX][0-9a-fA-F]+
                         | (?: \d+\.?\d* | \.\d+ ) (?: [eE][+-]?\d+ )? [fF]? ) (?![\w.]) )
    | (?P<bad_number>  \.?\d[\w.]* )
    | (?P<string>      "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*' )
    | (?P<open_string> ["'][^\n]* )
    | (?P<mark>        [{}<>\[\]:;,-] )
    | (?P<other>       . )
    """,
    re.VERBOSE | re.ASCII,
)

_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|[xX](?P<hexa>[0-9a-fA-F]{1,2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<plain>.))",
    re.DOTALL,
)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLAIN |= {sign: sign for sign in "\\'\"?"}
_KINDS: dict[str, Kind] = {"name": "name", "number": "number", "string": "string", "mark": "mark"}


def tokenize(text: str, report: Report) -> list[Token]:
    """All tokens of `text`, an `end` token last.

    A bad number becomes `0`, a string without end BROKEN_STRING, so that only what is wrong is
    reported, not what follows from it.
    """
    tokens: list[Token] = []
    line, line_start = 1, 0
    for match in _TOKEN.finditer(text):
        group, found = match.lastgroup or "", match.group()
        column = match.start() - line_start + 1
        if group == "blank":
            newlines = found.count("\n")
            if newlines:
                line += newlines
                line_start = match.start() + found.rindex("\n") + 1
        elif group in _KINDS:
            tokens.append(Token(_KINDS[group], found, line, column))
        elif group == "bad_number":
            report(line, column, f"{found!r} is not a number")
            tokens.append(Token("number", "0", line, column))
        elif group == "open_string":
            report(line, column, f"the string opened here is not closed on its line: {found[:40]}")
            tokens.append(Token("string", BROKEN_STRING, line, column))
        else:
            report(line, column, f"unexpected character {found!r}")
    tokens.append(Token("end", "", line, len(text) - line_start + 1))
    return tokens


def unescape(token: Token, report: Report) -> bytes:
    """The bytes that a string token stands for; a wrong escape is reported and dropped."""

    def replace(match: re.Match[str]) -> str:
        kind, digits = match.lastgroup, match.group(match.lastgroup or 0)
        if kind in ("octal", "hexa"):
            value = int(digits, 8 if kind == "octal" else 16)
            if value <= 0xFF:
                return chr(value) if value < 0x80 else chr(0xDC00 + value)
        elif kind in ("short", "long"):
            value = int(digits, 16)
            if value <= 0x10FFFF and not 0xD800 <= value < 0xE000:
                return chr(value)
        elif digits in _PLAIN:
            return _PLAIN[digits]
        report(token.line, token.column + 1 + match.start(), f"unknown escape {match.group()!r}")
        return ""

    # Bytes above 127 travel as the surrogates that "surrogateescape" turns back into bytes.
    text = _ESCAPE.sub(replace, token.text[1:-1])
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as bad:
        report(token.line, token.column, f"{text[bad.start]!r} is not a character")
        return b""
