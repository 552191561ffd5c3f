"""String formats of OpenAPI schemas, as Kubernetes checks them (`format: date-time`, `ipv4`, `uuid`, …).

Every check is linear in the text. Unknown formats are not checked.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date

from alcove.api.urls import is_request_uri

Check = Callable[[str], bool]


def _full(pattern: str, flags: re.RegexFlag = re.ASCII) -> Check:
    matches = re.compile(pattern, flags).fullmatch
    return lambda text: matches(text) is not None


_HEX = "[0-9a-fA-F]"
is_uuid = _full(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}")
_TAIL = rf"{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"
is_base64 = _full(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_is_clock = _full(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def is_date(text: str) -> bool:
    try:
        return len(text) == 10 and text.isascii() and bool(date.fromisoformat(text))
    except ValueError:
        return False


def is_date_time(text: str) -> bool:
    day, separator, clock = text.lower().partition("t")
    return bool(separator) and is_date(day) and _is_clock(clock)


_GO_DURATION = _full(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.UNICODE)
_SCALA_PART = re.compile(r"[0-9]+\s*([A-Za-zµ]+)")
_SCALA_UNITS = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_SCALA_PREFIXES = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def is_duration(text: str) -> bool:
    """Check Go's form `1h30m`, or Scala's `2 days`."""
    if _GO_DURATION(text):
        return True
    units = (match[1].lower() for match in _SCALA_PART.finditer(text[:1024]))
    return any(unit in _SCALA_UNITS or unit.startswith(_SCALA_PREFIXES) for unit in units)


def _is_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address; leading zeros in IPv4 are tolerated, as in Kubernetes."""
    if len(text) > 64 or "%" in text:
        return None
    if ":" not in text:
        text = ".".join(part.lstrip("0") or "0" if part.isdigit() else "x" for part in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_ipv4(text: str) -> bool:
    return "." in text and _is_ip(text) is not None


def is_ipv6(text: str) -> bool:
    return ":" in text and _is_ip(text) is not None


def is_cidr(text: str) -> bool:
    address_text, slash, bits = text.rpartition("/")
    address = _is_ip(address_text) if slash else None
    return (
        address is not None and bits.isascii() and bits.isdigit() and int(bits[:4]) <= address.max_prefixlen
    )


_MAC = re.compile(
    rf"{_HEX}{{2}}(?:(:{_HEX}{{2}}){{5}}|(:{_HEX}{{2}}){{7}}|(:{_HEX}{{2}}){{19}}|(-{_HEX}{{2}}){{5}}|(-{_HEX}{{2}}){{7}}"
    rf"|(-{_HEX}{{2}}){{19}})|{_HEX}{{4}}(?:(\.{_HEX}{{4}}){{2}}|(\.{_HEX}{{4}}){{3}}|(\.{_HEX}{{4}}){{9}})"
)


def is_mac(text: str) -> bool:
    return _MAC.fullmatch(text) is not None


_HOST_LABEL = re.compile(r"[^\W_](?:[^\W_]|-)*", re.UNICODE)


def is_hostname(text: str) -> bool:
    labels = text.split(".")
    if len(text.encode()) > 255 or any(not label or len(label.encode()) > 63 for label in labels):
        return False
    if any(_HOST_LABEL.fullmatch(label) is None or label.endswith("-") for label in labels):
        return False
    return len(labels) == 1 or (len(labels[-1]) >= 2 and labels[-1].isalpha())


_EMAIL = re.compile(r"(?:[^<>]*<)?\s*[^\s@<>()\[\],;:\\\"]+@[^\s@<>()\[\],;:\\\"]+\s*>?")


def is_email(text: str) -> bool:
    match = _EMAIL.fullmatch(text)
    return match is not None and ("<" in text) == text.rstrip().endswith(">") and ".." not in text


def _isbn_digits(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


def is_isbn10(text: str) -> bool:
    digits = _isbn_digits(text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if char == "X" else int(char) for char in digits]
    return sum(weight * value for weight, value in zip(range(1, 11), values, strict=True)) % 11 == 0


def is_isbn13(text: str) -> bool:
    digits = _isbn_digits(text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(char) * (3 if index % 2 else 1) for index, char in enumerate(digits)) % 10 == 0


_CARD = _full(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)


def is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text[:1024])
    if not _CARD(digits):
        return False
    doubled = (int(char) * (2 if index % 2 else 1) for index, char in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_BYTE = "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_SHORT_NAME = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_is_short_name = _full(_SHORT_NAME)
_is_long_name = _full(rf"{_SHORT_NAME}(?:\.{_SHORT_NAME})*")

STRING_FORMATS: Mapping[str, Check] = {
    "bsonobjectid": _full(rf"{_HEX}{{24}}"),
    "byte": is_base64,
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": is_date,
    "datetime": is_date_time,
    "duration": is_duration,
    "email": is_email,
    "hexcolor": _full(rf"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and _is_long_name(text),
    "k8sshortname": lambda text: len(text) <= 63 and _is_short_name(text),
    "mac": is_mac,
    "rgbcolor": _full(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "ssn": _full("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "uri": is_request_uri,
    "uuid": is_uuid,
    "uuid3": _full(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _full(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_TAIL}"),
    "uuid5": _full(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_TAIL}"),
}
"""By name without dashes (`date-time` is `datetime`). `password` is any string."""


def string_format(name: str) -> Check | None:
    """Return the check of a format; None if the format has none."""
    return STRING_FORMATS.get(name.replace("-", ""))
