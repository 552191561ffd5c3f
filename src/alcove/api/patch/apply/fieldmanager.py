"""The name of a writer: the request's `fieldManager`."""

import unicodedata
from functools import lru_cache

from alcove.api import fields
from alcove.api.fields import FieldError

LENGTH_MAX = 128
"""In bytes."""


def validate(manager: str, path: str = "fieldManager") -> list[FieldError]:
    """Return the errors of a manager's name, from a request's `fieldManager` or a managedFields entry."""
    errors: list[FieldError] = []
    if len(manager.encode()) > LENGTH_MAX:
        errors.append(fields.too_long(path, LENGTH_MAX))
    position = 0
    for character in manager:
        if not _is_printable(character):
            shown = f"U+{ord(character):04X}"
            errors.append(
                fields.invalid(path, manager, f"invalid character {shown} (at position {position})")
            )
        position += len(character.encode())
    return errors


@lru_cache(maxsize=256)
def name(field_manager: str, user_agent: str) -> str:
    """Return the request's `fieldManager`, or else its User-Agent up to the first slash."""
    if field_manager:
        return field_manager
    agent = "".join(filter(_is_printable, user_agent.partition("/")[0]))
    return agent.encode()[:LENGTH_MAX].decode(errors="ignore")


def _is_printable(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] in "LMNPS"
