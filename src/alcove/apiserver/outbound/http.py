"""One HTTP/1.1 exchange at a time on a TLS connection that may serve several, with bounds on the answer."""

import asyncio
import socket
import ssl
from asyncio import StreamReader, StreamWriter

import httptools

from alcove.apiserver.outbound.errors import WebhookError
from alcove.component import request_ids

HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 3 << 20
READ_BYTES = 64 << 10


class Answer:
    """What came back; httptools calls its methods."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.is_complete = False
        self.is_kept = False
        self._in_body = False
        self._head_bytes = 0
        self._has_length = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Raises WebhookError."""
        if not self._in_body:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise WebhookError("the webhook did not answer in HTTP/1.1") from error
        if not self._in_body and self._head_bytes > HEAD_BYTES_MAX:
            raise WebhookError(f"the webhook's answer has more than {HEAD_BYTES_MAX} bytes of headers")
        if len(self.body) > BODY_BYTES_MAX:
            raise WebhookError(f"the webhook's answer has more than {BODY_BYTES_MAX} bytes")

    def end(self) -> None:
        """The connection was closed. Raises ConnectionError unless that is how the answer ends."""
        if not self._in_body or self._has_length:
            raise ConnectionResetError("the connection was closed before the whole answer came")
        self.is_complete = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._in_body = True

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        if 100 <= self.status < 200:
            self._in_body = self._has_length = False
            return
        self.is_complete = True
        self.is_kept = self._parser.should_keep_alive()


class Connection:
    """A TLS connection to one webhook."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_used = False
        """Whether it served an exchange before."""

    @property
    def is_open(self) -> bool:
        return not self._writer.is_closing() and not self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()

    async def post(self, host: str, path: str, body: bytes) -> Answer:
        """Raises WebhookError, OSError. After an exception, or an answer that is not `is_kept`, it is over."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: alcove\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )
        head += "".join(f"{name}: {value}\r\n" for name, value in request_ids.outgoing().items()) + "\r\n"
        self._writer.write(head.encode("ascii") + body)
        await self._writer.drain()
        answer = Answer()
        while not answer.is_complete:
            data = await self._reader.read(READ_BYTES)
            if data:
                answer.feed(data)
            else:
                answer.end()
        self.is_used = True
        return answer


async def secure(sock: socket.socket, context: ssl.SSLContext, server_name: str) -> Connection:
    """Takes the socket over. Raises OSError, ssl.SSLError."""
    try:
        reader, writer = await asyncio.open_connection(sock=sock, ssl=context, server_hostname=server_name)
    except BaseException:
        sock.close()
        raise
    return Connection(reader, writer)
