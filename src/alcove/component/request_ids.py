"""Request ids: one id for a client's request and for every request and log line that it causes.

The header is Kubernetes' own. A client may choose the id; one that is too long, or has characters that are
not safe in a log line, is replaced. An id does not identify a client: different clients may choose equal ids.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context

HEADER = "Audit-ID"
ACCEPTED = ("audit-id", "x-request-id")
"""Request headers that may carry an id, in lower case; the first one present is used."""
LENGTH_MAX = 64
_VALID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LENGTH_MAX - 1}}}")
_BATCH = 64
_ID_BYTES = 16

current: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that this task works for; empty if there is none."""


def new() -> str:
    """Return a new id. Ids are random, not counted: a tenant must not learn from its ids how many requests
    other tenants send."""
    return os.urandom(_ID_BYTES).hex()


def generate() -> Iterator[str]:
    """Yield new ids without end; cheaper per id than `new`."""
    digits = 2 * _ID_BYTES
    while True:
        # One call to the kernel for many ids: each alone would cost a microsecond.
        batch = os.urandom(_BATCH * _ID_BYTES).hex()
        for start in range(0, len(batch), digits):
            yield batch[start : start + digits]


def from_headers(headers: Mapping[str, str]) -> str:
    """The client's id; empty if it sent no valid one. Names of `headers` are in lower case."""
    for name in ACCEPTED:
        if name in headers:
            value = headers[name]
            return value if _VALID.fullmatch(value) else ""
    return ""


def outgoing() -> dict[str, str]:
    """The header for a request that is sent on behalf of the current one."""
    value = current.get()
    return {HEADER: value} if value else {}


def new_context() -> Context:
    """A copy of the current context for a task that gets an id of its own."""
    context = copy_context()
    context.run(current.set, new())
    return context


@contextmanager
def scope(request_id: str) -> Iterator[None]:
    """Everything logged and sent within the block carries the id."""
    token = current.set(request_id)
    try:
        yield
    finally:
        current.reset(token)
