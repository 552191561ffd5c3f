"""Forwards a proxied request's body to the backend, with the framing that its head announced."""

from __future__ import annotations

from alcove.http.client import HttpClientConnection
from alcove.http.upload import RequestUpload
from alcove.http.writing import LAST_CHUNK, chunk


class BodySender:
    """An `UploadReceiver`."""

    def __init__(self, upload: RequestUpload, backend: HttpClientConnection) -> None:
        self._is_chunked = upload.length is None
        self._backend = backend
        backend.upload = upload
        upload.follow(self)

    def take(self, data: bytes) -> None:
        if data:
            self._write(chunk(data) if self._is_chunked else data)

    def ended(self) -> None:
        if self._is_chunked:
            self._write(LAST_CHUNK)

    def _write(self, data: bytes) -> None:
        transport = self._backend.transport
        if not transport.is_closing():  # A backend may respond and close before it has read the body.
            transport.write(data)
