"""Image references: parses only as much as is needed to find the tag."""

import re
from functools import lru_cache

_DOMAIN_LABEL = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
).fullmatch
_REFERENCE_LENGTH_MAX = 1024
_PATH_LENGTH_MAX = 255
_IDENTIFIER = re.compile("[a-f0-9]{64}").fullmatch


@lru_cache(maxsize=4096)
def _tag(image: str) -> str:
    reference = _REFERENCE(image)
    if reference is None or _IDENTIFIER(image) or len(reference["path"]) > _PATH_LENGTH_MAX:
        return ""
    if reference["tag"]:
        return str(reference["tag"])
    return "" if reference["digest"] else "latest"


def tag(image: str) -> str:
    """Return the tag of an image: `latest` if none is named, empty for a digest or an invalid reference."""
    return _tag(image) if len(image) <= _REFERENCE_LENGTH_MAX else ""


def default_pull_policy(image: str) -> str:
    """`latest` can change, so it is always pulled; other images only if they are absent."""
    return "Always" if tag(image) == "latest" else "IfNotPresent"
