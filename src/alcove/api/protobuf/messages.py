"""Protobuf messages of the stock kinds: number and type of each field.

`fields.txt` has a line per message, `name field:number:type`. A type is s (string), i (varint), b (bool),
y (bytes), d (double) or another message; suffixes are `*` repeated, `%` map from string, `~` inlined into its
parent, `?` omitted when zero.
"""

from functools import cache
from importlib.resources import files

from msgspec import Struct


class MessageField(Struct, frozen=True):
    name: str
    type: str
    is_repeated: bool
    is_map: bool
    is_inline: bool
    omits_zero: bool


Message = dict[int, MessageField]


@cache
def message(name: str) -> Message | None:
    """Return the message's fields by number; None if there is no such message."""
    line = _lines().get(name)
    return None if line is None else dict(_field(part) for part in line.split())


@cache
def _lines() -> dict[str, str]:
    text = files(__package__).joinpath("fields.txt").read_text()
    return {name: rest for name, _, rest in (line.partition(" ") for line in text.splitlines())}


def _field(part: str) -> tuple[int, MessageField]:
    name, number, typed = part.split(":")
    kind = typed.rstrip("*%~?")
    suffixes = typed[len(kind) :]
    return int(number), MessageField(
        name, kind, "*" in suffixes, "%" in suffixes, "~" in suffixes, "?" in suffixes
    )


def of_kind(api_version: str, kind: str) -> str | None:
    """Return the name of a kind's message; options that every group has are those of meta/v1."""
    group, _, version = api_version.rpartition("/")
    for name in (f"{group.partition('.')[0] or 'core'}.{version}.{kind}", f"meta.v1.{kind}"):
        if name in _lines():
            return name
    return None
