import asyncio

from alcove.agent.server.inbox import Inbox


async def test_what_is_put_is_got_in_order_then_the_end() -> None:
    inbox = Inbox()
    await inbox.put(b"one")
    await inbox.put(b"")
    await inbox.put(b"two")
    inbox.end()
    await inbox.put(b"too late")
    assert [await inbox.get() for _ in range(4)] == [b"one", b"two", b"", b""]


async def test_a_writer_waits_while_the_inbox_is_full() -> None:
    inbox = Inbox(bytes_max=4)
    putting = asyncio.create_task(inbox.put(b"12345"))
    await asyncio.sleep(0.01)
    assert not putting.done()
    assert await inbox.get() == b"12345"
    async with asyncio.timeout(60):
        await putting


async def test_the_end_lets_everybody_go() -> None:
    inbox = Inbox(bytes_max=1)
    getting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.end()
    async with asyncio.timeout(60):
        assert await getting == b""
    full = Inbox(bytes_max=1)
    putting = asyncio.create_task(full.put(b"12345"))
    await asyncio.sleep(0)
    full.discard()
    async with asyncio.timeout(60):
        await putting
    assert await full.get() == b""
