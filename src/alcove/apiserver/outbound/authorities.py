"""The certificate authorities of webhooks: those of their CA bundles, or the machine's. Loading them takes
long: call it in a thread."""

import base64
import binascii
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache

from alcove.apiserver.outbound.errors import WebhookError

CA_BUNDLE_BYTES_MAX = 64 << 10
"""Size of the `caBundle` of a webhook or APIService, decoded; with a larger one its calls fail."""
CONTEXTS_MAX = 64
"""CA bundles of all tenants that are kept loaded; one that is not kept is loaded again for the next
connection."""


def context_of(authority: str) -> ssl.SSLContext:
    """`authority` is a CA bundle in base64; empty for the machine's authorities. Raises WebhookError."""
    return _loaded(authority) if authority else _default()


@cache
def _default() -> ssl.SSLContext:
    return ssl.create_default_context()


@lru_cache(maxsize=CONTEXTS_MAX)
def _loaded(authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_bundle(context, authority)
    return context


def load_bundle(context: ssl.SSLContext, authority: str) -> None:
    """Trust the authorities of a CA bundle in base64. Raises WebhookError."""
    if len(authority) > CA_BUNDLE_BYTES_MAX // 3 * 4 + 4:
        raise WebhookError(f"the caBundle has more than {CA_BUNDLE_BYTES_MAX} bytes")
    try:
        with in_memory(base64.b64decode(authority, validate=True)) as path:
            context.load_verify_locations(cafile=path)
    except (binascii.Error, ssl.SSLError) as error:
        raise WebhookError("unable to load root certificates from the caBundle") from error


@contextmanager
def in_memory(data: bytes) -> Iterator[str]:
    """The path of a file in memory with these bytes: Python holds the interpreter lock while it loads certificates
    that are not in a file, and loads keys only from files."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
