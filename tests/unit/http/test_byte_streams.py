"""A tunnel's bytes before a protocol takes it over: nothing is lost, reordered or buffered without bound."""

import asyncio

import pytest

from alcove.http.byte_streams import TransportStream


class _Collects(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()
        self._buffer = bytearray(4)

    def get_buffer(self, sizehint: int) -> bytearray:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += bytes(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def opened(serve: object) -> tuple[TransportStream, asyncio.Server]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)  # type: ignore[arg-type]
    port = server.sockets[0].getsockname()[1]
    _, stream = await asyncio.get_running_loop().create_connection(TransportStream, "127.0.0.1", port)
    return stream, server


async def test_bytes_that_were_not_received_are_the_next_protocols() -> None:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first, then the rest")
        await writer.drain()
        writer.close()

    stream, server = await opened(serve)
    async with server:
        assert await stream.receive(5) == b"first"
        protocol = _Collects()
        await stream.hand_over(protocol)
        async with asyncio.timeout(60):
            await protocol.ended.wait()
        assert protocol.data == b", then the rest"


async def test_sending_waits_for_the_peer_to_read() -> None:
    go_on, received = asyncio.Event(), bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        while data := await reader.read(1 << 16):
            received.extend(data)
        writer.close()

    stream, server = await opened(serve)
    async with server:
        sending = asyncio.create_task(stream.send(b"x" * (32 << 20)))
        await asyncio.sleep(0)
        assert not sending.done()
        go_on.set()
        async with asyncio.timeout(60):
            await sending
        stream.abort()


async def test_a_closed_peer_is_an_empty_read_and_no_protocol_takes_over() -> None:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    stream, server = await opened(serve)
    async with server:
        assert await stream.receive(10) == b""
        with pytest.raises(ConnectionError):
            await stream.hand_over(_Collects())
