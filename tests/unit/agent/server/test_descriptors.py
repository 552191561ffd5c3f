import asyncio
import os

from alcove.agent.server.descriptors import DescriptorReader, DescriptorWriter


async def test_a_source_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    source = DescriptorReader(reading)
    waiting = asyncio.create_task(source.read())
    await asyncio.sleep(0)
    os.write(writing, b"said")
    async with asyncio.timeout(60):
        assert await waiting == b"said"
        os.close(writing)
        assert await source.read() == b""
    os.close(reading)


async def test_output_before_the_exit_is_read_though_others_hold_the_pipe() -> None:
    reading, writing = os.pipe()
    source = DescriptorReader(reading)
    os.write(writing, b"last words")
    waiting = asyncio.create_task(_all(source))
    await asyncio.sleep(0.01)
    source.finish()
    async with asyncio.timeout(60):
        assert await waiting == b"last words"
    os.close(writing)
    os.close(reading)


async def _all(source: DescriptorReader) -> bytes:
    output = b""
    while data := await source.read():
        output += data
    return output


async def test_a_sink_waits_for_its_reader() -> None:
    reading, writing = os.pipe()
    data = os.urandom(1 << 20)
    task = asyncio.create_task(DescriptorWriter(writing).write(data))
    await asyncio.sleep(0.01)
    assert not task.done()
    os.set_blocking(reading, False)
    source = DescriptorReader(reading)
    received = b""
    async with asyncio.timeout(60):
        while len(received) < len(data):
            received += await source.read()
        await task
    assert received == data
    os.close(reading)
    async with asyncio.timeout(60):
        await DescriptorWriter(writing).write(b"nobody is there")
    os.close(writing)
