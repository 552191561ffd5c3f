"""A request's body on its way to a backend, framed as its head said."""

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
        if not transport.is_closing():  # One that has answered and left does not want the rest.
            transport.write(data)
