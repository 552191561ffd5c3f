"""Building blocks of the warning tables, and the kinds that are deprecated as a whole."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from alcove.api import addresses, quantity
from alcove.api.objects import Object

Warn = Callable[[Object, Object | None], Sequence[str]]
"""(new, old or None on create) → warnings."""


DEPRECATED = {
    ("", "v1", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "v1", "Endpoints"): ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
}
"""By group, version and kind; the warning is sent with every response (`Kind.warning`)."""


def annotated(table: Mapping[str, str], annotations: Mapping[str, str], path: str) -> list[str]:
    """Return the warnings for deprecated annotations; `table` has the text by name."""
    return [
        f"{path}metadata.annotations[{key}]: {message}"
        for key, message in table.items()
        if key in annotations
    ]


def present(table: Mapping[str, str], fields: Object, path: str) -> list[str]:
    """Return the warnings for deprecated fields; `table` has the text by name."""
    return [
        f"{path}{field}: {table[field]}" for field in fields if field in table and fields[field] is not None
    ]


def fractional(amounts: Mapping[str, Any] | None, names: Iterable[str], path: str) -> list[str]:
    """Return warnings for fractions of a byte."""
    messages: list[str] = []
    if amounts:
        for name in names:
            if name in amounts and (part := _part(amounts[name])):
                message = f'fractional byte value "{part}" is invalid, must be an integer'
                messages.append(f"{path}[{name}]: {message}")
    return messages


def _part(amount: str | int | float) -> str:
    """Return the amount as text if it is not a whole number; otherwise empty."""
    parsed = quantity.of(amount)
    return "" if parsed.is_whole else str(parsed)


def address(path: str, value: str) -> list[str]:
    """Return a warning for a non-canonical IPv6 address. Other non-standard spellings are rejected."""
    if ":" not in value or (proper := addresses.canonical_text(value)) == value:
        return []
    return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{proper}")']


def cidr(path: str, value: str) -> list[str]:
    if ":" not in value:
        return []
    text, _, length = value.partition("/")
    proper = f"{addresses.canonical_text(text)}/{length}"
    if proper == value:
        return []
    return [f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{proper}")']
