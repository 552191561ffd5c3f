"""The certificate authorities of webhooks: those of their CA bundles, or the machine's. Loading them takes
long: call it in a thread."""

import base64
import binascii
import os
import ssl
from functools import cache, lru_cache

from alcove.apiserver.outbound.errors import WebhookError

CA_BUNDLE_BYTES_MAX = 64 << 10
"""Size of one webhook's `caBundle`, decoded; with a larger one its calls fail."""
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
    if len(authority) > CA_BUNDLE_BYTES_MAX // 3 * 4 + 4:
        raise WebhookError(f"the webhook's caBundle has more than {CA_BUNDLE_BYTES_MAX} bytes")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # From a file, because Python holds the interpreter lock while it loads certificates from memory.
    descriptor = os.memfd_create("ca-bundle", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, base64.b64decode(authority, validate=True))
        context.load_verify_locations(cafile=f"/proc/self/fd/{descriptor}")
    except (binascii.Error, ssl.SSLError) as error:
        raise WebhookError("unable to load root certificates from the webhook's caBundle") from error
    finally:
        os.close(descriptor)
    return context
