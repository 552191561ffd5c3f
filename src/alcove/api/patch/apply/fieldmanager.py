"""The name a writer goes by: the request's `fieldManager`."""

import unicodedata
from functools import lru_cache

from alcove.api import fields
from alcove.api.fields import FieldError

LENGTH_MAX = 128
"""In bytes."""


def validate(manager: str, path: str = "fieldManager") -> list[FieldError]:
    """What is wrong with a manager's name, as `fieldManager` in a request or in an entry."""
    faults: list[FieldError] = []
    if len(manager.encode()) > LENGTH_MAX:
        faults.append(fields.too_long(path, LENGTH_MAX))
    position = 0
    for character in manager:
        if not _is_printable(character):
            shown = f"U+{ord(character):04X}"
            faults.append(
                fields.invalid(path, manager, f"invalid character {shown} (at position {position})")
            )
        position += len(character.encode())
    return faults


@lru_cache(maxsize=256)
def name(field_manager: str, user_agent: str) -> str:
    """Who writes: the request's `fieldManager`, else its User-Agent up to the first slash."""
    if field_manager:
        return field_manager
    agent = "".join(filter(_is_printable, user_agent.partition("/")[0]))
    return agent.encode()[:LENGTH_MAX].decode(errors="ignore")


def _is_printable(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] in "LMNPS"
