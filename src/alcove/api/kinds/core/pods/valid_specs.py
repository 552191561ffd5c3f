"""Pod specs that were found to be valid. The pods of a set have the same one, and each is checked again with every update.

They are known by their bytes, and for each tenant apart: how long a request takes tells nobody what another tenant's pods are.
"""

from __future__ import annotations

from threading import Lock

import orjson

from alcove.api.fair_pool import FairPool
from alcove.api.objects import Object

SPEC_BYTES_MAX = 8 << 10
"""Of a spec that is remembered, encoded."""
SPECS_BYTES_MAX = 8 << 20
"""Of all that are remembered. Beyond it the tenant with most forgets its oldest, which are checked again."""
IDLE_SECONDS = 300.0


class ValidSpecs:
    """May be used in any thread."""

    def __init__(self, bytes_max: int = SPECS_BYTES_MAX) -> None:
        self._lock = Lock()
        self._pool: FairPool[tuple[str, bytes]] = FairPool(bytes_max, IDLE_SECONDS)
        self._known: set[tuple[str, bytes]] = set()

    def __contains__(self, key: tuple[str, bytes] | None) -> bool:
        return key in self._known

    def add(self, key: tuple[str, bytes]) -> None:
        with self._lock:
            self._known.add(key)
            for gone in self._pool.add(key[0], key, len(key[1])):
                self._known.discard(gone)


def key_of(tenant: str, spec: Object) -> tuple[str, bytes] | None:
    """None for a spec that is not remembered: it is long, or whether it is valid depends on the pod's name."""
    try:
        encoded = orjson.dumps(spec)
    except TypeError:
        return None
    if len(encoded) > SPEC_BYTES_MAX or b'"ephemeral"' in encoded or b'"resourceClaims"' in encoded:
        return None
    return tenant, encoded
