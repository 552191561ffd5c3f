"""Parts of object metadata: uids, generated names, timestamps, self links.

Times are epoch seconds in the program and RFC 3339 in UTC on the wire: `Time` in whole seconds,
`MicroTime` with six digits, as Kubernetes writes them.
"""

import math
import os
import time
from datetime import UTC, datetime
from functools import lru_cache

from alcove.api.ids import TenantId
from alcove.api.kind import Kind, Scope

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no characters that look like vowels, so that generated names form no words."""
_SUFFIX_LENGTH = 5
_GENERATED_LENGTH_MAX = 63
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""Of a UUID, by a random digit."""


def new_uid() -> str:
    """Return a random (version 4) UUID."""
    digits = os.urandom(16).hex()
    return (
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:]}"
    )


def generate_name(prefix: str) -> str:
    """Append five random characters to `prefix`; a long prefix is cut so that the name stays a DNS label."""
    suffix = "".join(_SUFFIX_ALPHABET[byte % len(_SUFFIX_ALPHABET)] for byte in os.urandom(_SUFFIX_LENGTH))
    return prefix[: _GENERATED_LENGTH_MAX - _SUFFIX_LENGTH] + suffix


def format_time(epoch_seconds: float) -> str:
    """Format as `Time`: `2024-05-01T10:00:00Z`. Fractions of a second are truncated."""
    return _second(math.floor(epoch_seconds))


@lru_cache(maxsize=64)
def _second(epoch_seconds: int) -> str:
    # Cached, because thousands of objects are written in one second.
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch_seconds))


def format_micro_time(epoch_seconds: float) -> str:
    """Format as `MicroTime`: `2024-05-01T10:00:00.123456Z`."""
    moment = datetime.fromtimestamp(epoch_seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z"


def parse_time(text: str) -> float:
    """Parse a `Time` or `MicroTime` to epoch seconds. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


def self_link(kind: Kind, tenant: TenantId, namespace: str, name: str) -> str:
    """Return the object's full path: `/api/v1/tenants/T/namespaces/N/pods/P`.

    The path of a Tenant object has no other tenant in it: `/api/v1/tenants/T`.
    """
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.resource == "tenants" and not kind.group:
        return f"{root}/tenants/{name}"
    within = f"/namespaces/{namespace}" if kind.scope is Scope.NAMESPACE and namespace else ""
    return f"{root}/tenants/{tenant}{within}/{kind.resource}/{name}"
