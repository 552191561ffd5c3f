"""Naming rules of Kubernetes: DNS labels and subdomains, label keys and values, ports, …

Every check takes the value and returns the messages Kubernetes uses, or an empty tuple for a valid value.
All checks are linear in the value's length and cheap for valid values.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

Check = Callable[[str], Sequence[str]]
NameCheck = Callable[[str, bool], Sequence[str]]
"""(name, is_prefix): a prefix (`generateName`) may end in a dash, because more characters follow."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_UNDERSCORED_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_SUBDOMAIN = _UNDERSCORED_LABEL + r"(\." + _UNDERSCORED_LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = r"\*\." + _SUBDOMAIN
_KEY_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = "(" + _KEY_NAME + ")?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_PERCENT = "[0-9]+%"
_HTTP_HEADER = "[-A-Za-z0-9]+"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

LABEL_LENGTH_MAX = 63
SUBDOMAIN_LENGTH_MAX = 253
CACHED_LENGTH_MAX = SUBDOMAIN_LENGTH_MAX + 1 + LABEL_LENGTH_MAX


def regex_message(description: str, regex: str, *examples: str) -> str:
    """Format the rule, examples and regular expression of a format as Kubernetes does."""
    if not examples:
        return f"{description} (regex used for validation is '{regex}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{description} (e.g. {shown}regex used for validation is '{regex}')"


def too_long(maximum: int) -> str:
    return f"must be no more than {maximum} characters"


def too_long_bytes(maximum: int) -> str:
    return f"must be no more than {maximum} bytes"


def out_of_range(lowest: int, highest: int) -> str:
    return f"must be between {lowest} and {highest}, inclusive"


_LABEL_ERROR = regex_message(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_ERROR = regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_UNDERSCORED_SUBDOMAIN_ERROR = regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _UNDERSCORED_SUBDOMAIN,
    "example.com",
)
_LABEL_1035_ERROR = regex_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_WILDCARD_ERROR = regex_message(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
    "which must consist of lower case alphanumeric characters, '-' or '.' "
    "and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)
_KEY_NAME_ERROR = regex_message(
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _KEY_NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_ERROR = regex_message(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_underscored_subdomain = re.compile(_UNDERSCORED_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_key_name = re.compile(_KEY_NAME).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_is_percent = re.compile(_PERCENT).fullmatch
_is_http_header = re.compile(_HTTP_HEADER).fullmatch
_is_relaxed_env_name = re.compile("[ -<>-~]*").fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_is_condition_reason = re.compile(_CONDITION_REASON).fullmatch
_has_port_charset = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search


def _length_errors(
    value: str, maximum: int, format_message: Callable[[int], str] = too_long
) -> tuple[str, ...]:
    """Lengths are counted in bytes of UTF-8, though most messages say characters."""
    return (format_message(maximum),) if len(value.encode()) > maximum else ()


def dns_label(value: str) -> Sequence[str]:
    """Check an RFC 1123 label: namespaces, containers, volumes."""
    if _is_label(value):
        return () if len(value) <= LABEL_LENGTH_MAX else (too_long(LABEL_LENGTH_MAX),)
    shape = "must not contain dots" if _is_subdomain(value) else _LABEL_ERROR
    return (*_length_errors(value, LABEL_LENGTH_MAX), shape)


def dns_subdomain(value: str) -> Sequence[str]:
    """Check an RFC 1123 subdomain: most objects' names."""
    if _is_subdomain(value):
        return () if len(value) <= SUBDOMAIN_LENGTH_MAX else (too_long(SUBDOMAIN_LENGTH_MAX),)
    return (*_length_errors(value, SUBDOMAIN_LENGTH_MAX), _SUBDOMAIN_ERROR)


def dns_subdomain_underscored(value: str) -> Sequence[str]:
    """Check a subdomain whose labels may contain `_`: DNS search paths."""
    long = _length_errors(value, SUBDOMAIN_LENGTH_MAX)
    return long if _is_underscored_subdomain(value) else (*long, _UNDERSCORED_SUBDOMAIN_ERROR)


def dns_1035_label(value: str) -> Sequence[str]:
    """Check an RFC 1035 label, which starts with a letter: legacy service names, generated variable names."""
    long = _length_errors(value, LABEL_LENGTH_MAX)
    return long if _is_label_1035(value) else (*long, _LABEL_1035_ERROR)


def wildcard_subdomain(value: str) -> Sequence[str]:
    """Check `*.` followed by a subdomain: an ingress rule's host."""
    long = _length_errors(value, SUBDOMAIN_LENGTH_MAX)
    return long if _is_wildcard(value) else (*long, _WILDCARD_ERROR)


@lru_cache(maxsize=4096)
def _good_label_key(value: str) -> bool:
    prefix, slash, name = value.rpartition("/")
    if not _is_key_name(name) or len(name) > LABEL_LENGTH_MAX:
        return False
    return not slash or (_is_subdomain(prefix) is not None and len(prefix) <= SUBDOMAIN_LENGTH_MAX)


def label_key(value: str) -> Sequence[str]:
    """Check a qualified name: an optional subdomain and `/`, then a name. Results are cached."""
    if len(value) <= CACHED_LENGTH_MAX and _good_label_key(value):
        return ()
    parts = value.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_KEY_NAME_ERROR}"
            " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    return (*(_prefix_errors(parts[0]) if len(parts) == 2 else ()), *_key_name_errors(parts[-1]))


qualified_name = label_key


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    errors = list(_length_errors(prefix, SUBDOMAIN_LENGTH_MAX, too_long_bytes))
    if not _is_subdomain(prefix):
        errors.append(_SUBDOMAIN_ERROR)
    return [f"prefix part {message}" for message in errors]


def _key_name_errors(name: str) -> list[str]:
    errors = []
    if not name:
        errors.append("must be non-empty")
    errors += _length_errors(name, LABEL_LENGTH_MAX, too_long_bytes)
    if not _is_key_name(name):
        errors.append(_KEY_NAME_ERROR)
    return [f"name part {message}" for message in errors]


def label_value(value: str) -> Sequence[str]:
    if _is_label_value(value):
        return () if len(value) <= LABEL_LENGTH_MAX else (too_long_bytes(LABEL_LENGTH_MAX),)
    return (*_length_errors(value, LABEL_LENGTH_MAX, too_long_bytes), _LABEL_VALUE_ERROR)


def port_name(value: str) -> Sequence[str]:
    """Check an IANA service name, at most 15 characters: a container port's name."""
    if _is_label_1035(value) and len(value) <= 15 and "--" not in value:
        return ()
    errors = list(_length_errors(value, 15))
    if not _has_port_charset(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def port_number(value: int) -> Sequence[str]:
    return () if 1 <= value <= 65535 else (out_of_range(1, 65535),)


def user_id(value: int) -> Sequence[str]:
    return () if 0 <= value <= 2147483647 else (out_of_range(0, 2147483647),)


def c_identifier(value: str) -> Sequence[str]:
    if _is_c_identifier(value):
        return ()
    rule = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return (regex_message(rule, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


def percent(value: str) -> Sequence[str]:
    if _is_percent(value):
        return ()
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return (regex_message(rule, _PERCENT, "1%", "93%"),)


def http_header_name(value: str) -> Sequence[str]:
    if _is_http_header(value):
        return ()
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (regex_message(rule, _HTTP_HEADER, "X-Header-Name"),)


def _parent_directory_errors(value: str) -> tuple[str, ...]:
    if value == ".":
        return ("must not be '.'",)
    if value == "..":
        return ("must not be '..'",)
    return ("must not start with '..'",) if value.startswith("..") else ()


def relaxed_env_name(value: str) -> Sequence[str]:
    """Check a variable name: any printable ASCII except `=`."""
    if not value:
        return ("environment variable name must be non-empty",)
    if _is_relaxed_env_name(value):
        return ()
    return (
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )


def config_key(value: str) -> Sequence[str]:
    """Check a key of a config map or secret."""
    if _is_config_key(value) and len(value) <= SUBDOMAIN_LENGTH_MAX and not value.startswith("."):
        return ()
    errors = list(_length_errors(value, SUBDOMAIN_LENGTH_MAX))
    if not _is_config_key(value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(regex_message(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return (*errors, *_parent_directory_errors(value))


def condition_reason(value: str) -> Sequence[str]:
    if _is_condition_reason(value):
        return ()
    rule = (
        "a condition reason must start with alphabetic character, optionally followed by a string of "
        "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
    )
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return (regex_message(rule, _CONDITION_REASON, *examples),)


def http_path(value: str) -> Sequence[str]:
    """Check the path after the domain of a domain-prefixed path (`acme.io/foo`)."""
    return () if _is_http_path(value) else (regex_message("Invalid path", _HTTP_PATH),)


def path_segment(value: str) -> Sequence[str]:
    """Check a name that is safe as one segment of a URL path."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in value)


def name_is_path_segment(name: str, is_prefix: bool) -> Sequence[str]:
    """Check a name that only has to be safe in a URL path (roles, bindings)."""
    if is_prefix:
        return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in name)
    return path_segment(name)


def _masked(prefix: str) -> str:
    """Replace the trailing dash of a prefix by a character that may end a name."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def name_is_dns_subdomain(name: str, is_prefix: bool) -> Sequence[str]:
    return dns_subdomain(_masked(name) if is_prefix else name)


def name_is_dns_label(name: str, is_prefix: bool) -> Sequence[str]:
    return dns_label(_masked(name) if is_prefix else name)


def name_is_dns_1035_label(name: str, is_prefix: bool) -> Sequence[str]:
    return dns_1035_label(_masked(name) if is_prefix else name)
