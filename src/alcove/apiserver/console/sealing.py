"""Values that this server gives to browsers to keep: encrypted, so that a browser can neither read nor make them."""

from __future__ import annotations

import base64
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12


class SealedValues:
    def __init__(self, key: bytes, purpose: bytes) -> None:
        """What was sealed for one purpose cannot be opened for another."""
        self._cipher = AESGCM(key)
        self._purpose = purpose

    def seal(self, content: bytes) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, content, self._purpose)
        return base64.urlsafe_b64encode(sealed).decode("ascii")

    def open(self, value: str) -> bytes | None:
        """None if this server did not seal it."""
        try:
            sealed = base64.b64decode(value, altchars=b"-_", validate=True)
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._purpose)
        except (ValueError, InvalidTag):
            return None
