"""What the tables of warnings are made of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from alcove.api import addresses, quantity
from alcove.api.objects import Object

Warn = Callable[[Object, Object | None], Sequence[str]]
"""(new, old; None if it is created) → what to say."""


def annotated(table: Mapping[str, str], annotations: Mapping[str, str], path: str) -> list[str]:
    """Deprecated annotations: by name, what to say of each."""
    return [
        f"{path}metadata.annotations[{key}]: {message}"
        for key, message in table.items()
        if key in annotations
    ]


def present(table: Mapping[str, str], fields: Object, path: str) -> list[str]:
    """Deprecated fields: by name, what to say of each."""
    return [
        f"{path}{field}: {table[field]}" for field in fields if field in table and fields[field] is not None
    ]


def fractional(amounts: Mapping[str, Any] | None, names: Iterable[str], path: str) -> list[str]:
    """Parts of bytes."""
    found: list[str] = []
    if amounts:
        for name in names:
            if name in amounts and (part := _part(amounts[name])):
                message = f'fractional byte value "{part}" is invalid, must be an integer'
                found.append(f"{path}[{name}]: {message}")
    return found


@lru_cache(maxsize=1024)
def _part(amount: str | int | float) -> str:
    """The amount as it is shown, if it is no whole number; else nothing."""
    parsed = quantity.of(amount)
    return "" if parsed.is_whole else str(parsed)


def address(path: str, value: str) -> list[str]:
    """IPv6 as nobody else writes it. Other odd spellings are refused."""
    proper = addresses.canonical_text(value)
    if ":" not in value or proper == value:
        return []
    return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{proper}")']


def cidr(path: str, value: str) -> list[str]:
    text, _, length = value.partition("/")
    proper = f"{addresses.canonical_text(text)}/{length}"
    if ":" not in value or proper == value:
        return []
    return [f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{proper}")']
