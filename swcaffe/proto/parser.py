"""Tokens to a message, guided by the message's descriptors; one error does not hide the next.

Whatever is wrong is reported with its place and stepped over: an unknown field with its value, a
bad literal alone, a missing brace where the next top-level field shows that it is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from swcaffe.proto.hints import about_bare_word, about_string, about_unknown_field
from swcaffe.proto.messages import Field, Message, MessageClass, is_repeated
from swcaffe.proto.scalars import BadLiteral, Scalar, read_scalar, wants_string
from swcaffe.proto.source_map import FieldPath
from swcaffe.proto.tokens import BROKEN_STRING, Token, tokenize, unescape

__all__ = ["Complaint", "Parser"]

_CLOSER = {"{": "}", "<": ">", "[": "]"}
_ENDS = ("}", ">")


@dataclass(frozen=True, order=True)
class Complaint:
    """An error or a warning and its place in the text."""

    line: int
    column: int
    text: str


@dataclass(frozen=True)
class _Open:
    """A message being read: its field's name, the brace that opened it, the one that closes it."""

    name: str
    brace: Token
    closer: str


class Parser:
    """Reads one text; then `errors` and `warnings` hold what was wrong, `lines` the places."""

    def __init__(self, text: str, message_class: MessageClass, *, lenient: bool) -> None:
        """`lenient` makes unknown fields warnings."""
        self._message = message_class()
        self._top_lists = {
            field.name
            for field in message_class.DESCRIPTOR.fields
            if field.message_type is not None and is_repeated(field)
        }
        self.errors: list[Complaint] = []
        self.warnings: list[Complaint] = []
        self.lines: dict[FieldPath, int] = {}
        self._lenient = lenient
        self._tokens = tokenize(text, self._report)
        self._broken_string = any(token.text == BROKEN_STRING for token in self._tokens)
        self._at = 0
        self._stack: list[_Open] = []

    def run(self) -> Message:
        """The message that the whole text describes, as far as it could be understood."""
        while True:
            self._fields(self._message, ())
            stray = self._take()
            if stray.kind == "end":
                break
            self._error(stray, f"'{stray.text}' closes nothing")
        self._check_complete(self._message, self._tokens[0])
        return self._message

    # Fields

    def _fields(self, message: Message, path: FieldPath) -> None:
        """Read fields until the text or the message ends; leaves the closing token."""
        known = message.DESCRIPTOR.fields_by_name
        seen: dict[str, Token] = {}
        while True:
            token = self._token
            if token.kind == "end" or token.text in _ENDS:
                return
            if token.kind != "name":
                self._skip_garbage(message)
                continue
            field = known.get(token.text)
            if field is None:
                if self._brace_is_missing():
                    return
                self._unknown_field(message)
            else:
                self._take()
                if not is_repeated(field):
                    self._check_single(field, token, seen)
                self._field(message, field, token, path)
            if self._token.text in (",", ";"):
                self._take()

    def _field(self, message: Message, field: Field, name: Token, path: FieldPath) -> None:
        colon = self._token.text == ":"
        if colon:
            self._take()
        elif field.message_type is None and not self._at_value():
            self._error(self._token, f"expected ':' and a value after {name.text}")
            return
        elif field.message_type is None:
            self._error(self._token, f"expected ':' after {name.text}")
        if self._token.text != "[":
            self._value(message, field, name, path)
        elif is_repeated(field):
            self._list(message, field, path)
        else:
            self._error(self._token, f"{name.text} takes one value, not a list")
            self._skip_value()

    def _list(self, message: Message, field: Field, path: FieldPath) -> None:
        opened = self._take()
        while self._token.text != "]":
            if self._token.kind == "end" or self._token.text in (*_ENDS, ";"):
                self._error(opened, "the list opened here is not closed")
                return
            before = self._at
            self._value(message, field, self._token, path)
            if self._at == before:
                self._take()
            if self._token.text == ",":
                comma = self._take()
                if self._token.text == "]":
                    self._error(comma, "a list must not end in a comma")
            elif self._token.text not in ("]", ""):
                self._error(self._token, f"expected ',' or ']', found {_shown(self._token)}")
                while self._token.text not in ("]", "", *_ENDS):
                    self._skip_value()
        self._take()

    def _value(self, message: Message, field: Field, place: Token, path: FieldPath) -> None:
        """One value, put into the message; `place` is where the field or list element begins."""
        path = (*path, field.name)
        if is_repeated(field):
            path = (*path, len(getattr(message, field.name)))
        if field.message_type is not None:
            self._block(message, field, place, path)
            return
        self.lines[path] = place.line
        value = self._scalar(field)
        if value is None:
            return
        if is_repeated(field):
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)

    def _block(self, message: Message, field: Field, place: Token, path: FieldPath) -> None:
        brace = self._token
        if brace.text not in ("{", "<"):
            self._error(brace, f"{field.name} takes a block {{ … }}, not {_shown(brace)}")
            if self._at_value():
                self._skip_value()
            return
        self.lines[path] = place.line
        self._take()
        if is_repeated(field):
            inner = getattr(message, field.name).add()
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
        opened = _Open(field.name, brace, _CLOSER[brace.text])
        self._stack.append(opened)
        self._fields(inner, path)
        self._stack.pop()
        self._close(opened)
        self._check_complete(inner, place)

    def _close(self, opened: _Open) -> None:
        token = self._token
        if token.text in _ENDS:
            if token.text != opened.closer:
                self._error(
                    token,
                    f"expected '{opened.closer}' to close {opened.name} opened on line "
                    f"{opened.brace.line}, found '{token.text}'",
                )
            self._take()
        elif token.kind == "end" and not self._broken_string:
            self._error(opened.brace, f"{opened.name} opened here is not closed before the end")

    # Scalars

    def _scalar(self, field: Field) -> Scalar | None:
        """The value at hand, or None (reported and stepped over) if it does not fit the field."""
        first = self._token
        if wants_string(field):
            if first.kind == "string":
                return self._string(field)
            self._misfit(field)
            return None
        negative = first.text == "-"
        if negative:
            self._take()
        token = self._token
        if token.kind not in ("name", "number"):
            self._misfit(field)
            return None
        self._take()
        try:
            return read_scalar(field, token.kind, token.text, negative)
        except BadLiteral as bad:
            self._error(first, str(bad))
            return None

    def _string(self, field: Field) -> Scalar | None:
        first, parts = self._token, []
        while self._token.kind == "string":
            parts.append(unescape(self._take(), self._report))
        raw = b"".join(parts)
        if field.type == field.TYPE_BYTES:
            return raw
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self._error(first, f"{field.name} is not valid UTF-8; save the file as UTF-8")
            return None

    def _misfit(self, field: Field) -> None:
        """Report a value of the wrong kind and step over it."""
        token = self._token
        if token.kind == "string":
            self._error(token, about_string(field, token.text))
        elif wants_string(field) and token.kind in ("name", "number"):
            self._error(token, about_bare_word(field, token.text))
        elif token.text in _CLOSER:
            self._error(token, f"{field.name} takes a plain value, not a block or a list")
        else:
            self._error(token, f"expected a value of {field.name}, found {_shown(token)}")
            return
        self._skip_value()

    # Checks

    def _check_single(self, field: Field, token: Token, seen: dict[str, Token]) -> None:
        first = seen.setdefault(field.name, token)
        if first is not token:
            self._error(
                token,
                f"{field.name} takes one value and was given on line {first.line}, "
                f"column {first.column} already",
            )

    def _check_complete(self, message: Message, place: Token) -> None:
        if not message.IsInitialized():
            missing = [name for name in message.FindInitializationErrors() if "." not in name]
            if missing:
                kind = message.DESCRIPTOR.name
                self._error(place, f"{kind} needs {' and '.join(missing)}")

    def _unknown_field(self, message: Message) -> None:
        token = self._take()
        text = about_unknown_field(message.DESCRIPTOR, token.text)
        (self.warnings if self._lenient else self.errors).append(
            Complaint(token.line, token.column, text)
        )
        if self._token.text == ":":
            self._take()
        elif self._token.text not in ("{", "<"):
            self._error(self._token, f"expected ':' and a value after {token.text}")
            return
        self._skip_value()

    def _brace_is_missing(self) -> bool:
        """Whether the field at hand shows that a block before it was not closed; reports it once.

        True for `layer {` inside a layer: a name that only the outermost message knows, as a list
        of blocks. Every message that is open then ends here.
        """
        token, following = self._token, self._tokens[self._at + 1]
        if (
            not self._stack
            or token.text not in self._top_lists
            or following.text not in ("{", "<", ":")
        ):
            return False
        outer = self._stack[0]
        known = Complaint(
            outer.brace.line,
            outer.brace.column,
            f"{outer.name} opened here is not closed before {token.text} on line {token.line}",
        )
        if known not in self.errors:
            self.errors.append(known)
        return True

    # Tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _at_value(self) -> bool:
        token = self._token
        return token.kind in ("name", "number", "string") or token.text in ("-", "[")

    def _skip_garbage(self, message: Message) -> None:
        """Report what cannot begin a field, once; go to the next name or the end of the block."""
        kind = message.DESCRIPTOR.name
        self._error(self._token, f"expected a field of {kind}, found {_shown(self._token)}")
        while self._token.kind not in ("name", "end") and self._token.text not in _ENDS:
            self._skip_value()

    def _skip_value(self) -> None:
        """Step over a value of any kind: a block or list whole, adjacent strings together."""
        token = self._take()
        if token.text == "-" and self._token.kind in ("name", "number"):
            self._take()
        elif token.kind == "string":
            while self._token.kind == "string":
                self._take()
        elif token.text in _CLOSER:
            self._skip_block(token)

    def _skip_block(self, opened: Token) -> None:
        depth = 1
        while depth:
            token = self._take()
            if token.kind == "end":
                self._error(opened, f"'{opened.text}' opened here is not closed before the end")
                return
            depth += (token.text in _CLOSER) - (token.text in _CLOSER.values())

    def _error(self, token: Token, text: str) -> None:
        self._report(token.line, token.column, text)

    def _report(self, line: int, column: int, text: str) -> None:
        self.errors.append(Complaint(line, column, text))


def _shown(token: Token) -> str:
    return "the end of the file" if token.kind == "end" else token.text
