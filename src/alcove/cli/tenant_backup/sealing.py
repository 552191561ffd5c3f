"""Encryption of a backup with a passphrase, as a stream.

    ALCOVE-SEALED-1\n  salt (16 bytes)  nonce prefix (7 bytes)  chunks: ciphertext of 64 KiB and a tag; the last one may be shorter

The key is made from the passphrase by scrypt. Chunk i has the nonce `prefix | i (4 bytes) | whether it is the last (1 byte)` and
AES-256-GCM (the STREAM construction): a chunk that is changed, moved, repeated or missing at the end is noticed before it is used.
"""

from __future__ import annotations

import hashlib
import io
import os
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from alcove.cli.errors import CliError

MAGIC = b"ALCOVE-SEALED-1\n"
CHUNK_BYTES = 64 << 10
PASSPHRASE_BYTES_MIN = 8
SCRYPT_N = 1 << 16
"""64 MiB of memory for a fraction of a second, as OWASP recommends at least."""
_SALT_BYTES, _PREFIX_BYTES, _TAG_BYTES = 16, 7, 16


class SealingWriter(io.RawIOBase):
    """Encrypts what is written to it, and writes that to `out`. `finish` must be called at the end."""

    def __init__(self, out: BinaryIO, passphrase: bytes) -> None:
        self._out = out
        salt, self._prefix = os.urandom(_SALT_BYTES), os.urandom(_PREFIX_BYTES)
        self._cipher = _cipher(passphrase, salt)
        self._pending = bytearray()
        self._count = 0
        out.write(MAGIC + salt + self._prefix)

    def writable(self) -> bool:
        return True

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        self._pending += chunk
        # A whole chunk is kept back: it may be the last.
        while len(self._pending) > CHUNK_BYTES:
            self._seal(bytes(self._pending[:CHUNK_BYTES]), is_last=False)
            del self._pending[:CHUNK_BYTES]
        return len(chunk)

    def finish(self) -> None:
        self._seal(bytes(self._pending), is_last=True)

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        nonce = _nonce(self._prefix, self._count, is_last)
        self._out.write(self._cipher.encrypt(nonce, chunk, None))
        self._count += 1


class UnsealingReader(io.RawIOBase):
    """Decrypts `stream`, of which MAGIC was read already. Reads raise CliError."""

    def __init__(self, stream: BinaryIO, passphrase: bytes) -> None:
        self._stream = stream
        salt, self._prefix = stream.read(_SALT_BYTES), stream.read(_PREFIX_BYTES)
        self._cipher = _cipher(passphrase, salt)
        self._count = 0
        self._next = stream.read(CHUNK_BYTES + _TAG_BYTES)
        self._clear = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._clear and self._next:
            self._clear = memoryview(self._open())
        size = min(len(buffer), len(self._clear))
        buffer[:size] = self._clear[:size]
        self._clear = self._clear[size:]
        return size

    def _open(self) -> bytes:
        chunk, self._next = self._next, self._stream.read(CHUNK_BYTES + _TAG_BYTES)
        nonce = _nonce(self._prefix, self._count, is_last=not self._next)
        self._count += 1
        try:
            return self._cipher.decrypt(nonce, chunk, None)
        except (InvalidTag, ValueError) as error:
            raise CliError(
                "the backup cannot be decrypted: the passphrase is wrong, or it is damaged"
            ) from error


def _nonce(prefix: bytes, count: int, is_last: bool) -> bytes:
    return prefix + count.to_bytes(4, "big") + bytes([is_last])


def _cipher(passphrase: bytes, salt: bytes) -> AESGCM:
    return AESGCM(hashlib.scrypt(passphrase, salt=salt, n=SCRYPT_N, r=8, p=1, maxmem=1 << 27, dklen=32))
