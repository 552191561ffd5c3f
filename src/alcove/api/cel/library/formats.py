"""Named formats: `format.dns1123Label().validate(name)` returns the error messages, or none."""

from collections.abc import Callable, Sequence

from alcove.api import names
from alcove.api.cel.budget import regex_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.types import STRING, list_of, opaque, optional_of
from alcove.api.cel.values import ABSENT, Opaque, Optional
from alcove.api.schema.formats import is_base64, is_date, is_date_time, is_uuid
from alcove.api.urls import UrlError, parse_request_uri

FORMATS = Library()
FORMAT = opaque("kubernetes.NamedFormat")

Check = Callable[[str], Sequence[str]]


class FormatValue(Opaque):
    __slots__ = ("check", "name")
    cel_type = FORMAT

    def __init__(self, name: str, check: Check) -> None:
        self.name = name
        self.check = check

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _format_check(is_good: Callable[[str], bool], message: str) -> Check:
    return lambda text: () if is_good(text) else (message,)


def _uri(text: str) -> Sequence[str]:
    try:
        parse_request_uri(text)
    except UrlError as error:
        return (f'parse "{text}": {error}',)
    return ()


_CHECKS: dict[str, Check] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": lambda text: names.name_is_dns_label(text, True),
    "dns1123SubdomainPrefix": lambda text: names.name_is_dns_subdomain(text, True),
    "dns1035LabelPrefix": lambda text: names.name_is_dns_1035_label(text, True),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _format_check(is_uuid, "does not match the UUID format"),
    "byte": _format_check(is_base64, "invalid base64"),
    "date": _format_check(is_date, "invalid date"),
    "datetime": _format_check(is_date_time, "invalid datetime"),
}
_FORMATS = {name: FormatValue(name, check) for name, check in _CHECKS.items()}


def _constant(value: FormatValue) -> Callable[[], FormatValue]:
    return lambda: value


for _value in _FORMATS.values():
    FORMATS.function(f"format.{_value.name}", (), FORMAT)(_constant(_value))


@FORMATS.function("format.named", (STRING,), optional_of(FORMAT))
def _named(name: str) -> Optional:
    named_format = _FORMATS.get(name)
    return ABSENT if named_format is None else Optional(named_format)


@FORMATS.member(
    "validate",
    (FORMAT, STRING),
    optional_of(list_of(STRING)),
    cost=lambda _format, text: regex_cost(len(text), 60),
)
def _validate(format: FormatValue, text: str) -> Optional:
    errors = format.check(text)
    return Optional(list(errors)) if errors else ABSENT
