"""Errors of outbound calls."""

import os
import ssl

_UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
_OUT_OF_DATE = "certificate has expired or is not yet valid"
_VERIFY_ERRORS = {
    **dict.fromkeys((18, 19, 20, 21), _UNKNOWN_AUTHORITY),
    **dict.fromkeys((9, 10), _OUT_OF_DATE),
}
"""Kubernetes' words for OpenSSL's verification errors (X509_V_ERR_…); the others have OpenSSL's."""


class WebhookError(Exception):
    """The webhook could not be reached, or its response is invalid. The message says why."""


class TooManyCalls(WebhookError):
    """The tenant has too many concurrent calls."""

    def __init__(self) -> None:
        super().__init__("too many concurrent webhook calls of this tenant")


def connection_message(error: OSError) -> str:
    """What is wrong with a connection or its TLS session, without addresses, which an error's text may have."""
    match error:
        case ssl.SSLCertVerificationError():
            reason = _VERIFY_ERRORS.get(error.verify_code, error.verify_message)
            return f"tls: failed to verify certificate: x509: {reason}"
        case ssl.SSLError():
            return f"tls: {error.reason or 'the handshake failed'}"
    return os.strerror(error.errno).lower() if error.errno else "EOF"
