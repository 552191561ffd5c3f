# ruff: noqa: ASYNC240 - tests may touch files while the loop waits.
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from alcove.agent.logs.reader import LogFormatter, LogOptions, read

DAY = "2026-01-02T03:04:"


def entry(second: int, text: str, stream: str = "stdout", tag: str = "F") -> str:
    return f"{DAY}{second:02}.000000001+00:00 {stream} {tag} {text}\n"


class Reader:
    def __init__(self) -> None:
        self.data = b""
        self._changed = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.data += data
        self._changed.set()

    async def has(self, text: bytes) -> None:
        async with asyncio.timeout(60):
            while text not in self.data:
                self._changed.clear()
                await self._changed.wait()


async def said(path: Path, options: LogOptions) -> bytes:
    reader = Reader()
    await read(path, options, asyncio.Event(), reader.write)
    return reader.data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log that was rotated once."""
    (tmp_path / "0.log.20260102-030400.000000").write_text(entry(1, "one") + entry(2, "two", "stderr"))
    (tmp_path / "0.log").write_text(entry(3, "three") + entry(4, "fo", tag="P") + entry(5, "ur"))
    return tmp_path / "0.log"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), b"one\ntwo\nthree\nfour\n"),
        (LogOptions(tail_lines=1), b"four\n"),
        (LogOptions(tail_lines=3), b"two\nthree\nfour\n"),
        (LogOptions(tail_lines=99), b"one\ntwo\nthree\nfour\n"),
        (LogOptions(tail_lines=0), b""),
        (LogOptions(limit_bytes=6), b"one\ntw"),
        (LogOptions(stream=b"stderr"), b"two\n"),
        (LogOptions(since=1_767_323_043.0), b"three\nfour\n"),
        (LogOptions(since=9e9), b""),
        (
            LogOptions(timestamps=True, tail_lines=2),
            f"{DAY}03.000000001Z three\n{DAY}04.000000001Z four\n".encode(),
        ),
    ],
)
async def test_parts_of_a_log(path: Path, options: LogOptions, expected: bytes) -> None:
    assert await said(path, options) == expected


async def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert await said(tmp_path / "0.log", LogOptions()) == b""


def test_lines_in_any_pieces_and_none_of_ours_between() -> None:
    data = (entry(1, "one") + "rubbish\n" + entry(2, "two")).encode()
    formatter = LogFormatter(LogOptions())
    assert b"".join(formatter.format(data[n : n + 1]) for n in range(len(data))) == b"one\ntwo\n"


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[tuple[Reader, asyncio.Event]]:
    reader, ended = Reader(), asyncio.Event()
    task = asyncio.create_task(read(path, LogOptions(follow=True), ended, reader.write))
    yield reader, ended
    ended.set()
    async with asyncio.timeout(60):
        await task


async def test_lines_written_later_are_followed(path: Path) -> None:
    async with following(path) as (reader, _):
        await reader.has(b"four\n")
        with path.open("a") as file:
            file.write(entry(6, "five"))
        await reader.has(b"five\n")
    assert reader.data == b"one\ntwo\nthree\nfour\nfive\n"


async def test_a_log_that_begins_later_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    async with following(path) as (reader, _):
        await asyncio.sleep(0)
        path.write_text(entry(1, "at last"))
        await reader.has(b"at last\n")


async def test_rotation_under_a_follower_loses_nothing(path: Path) -> None:
    async with following(path) as (reader, _):
        await reader.has(b"four\n")
        for number in range(5):
            with path.open("a") as file:
                file.write(entry(10 + number, f"before {number}"))
            path.rename(path.with_name(f"0.log.20260103-00000{number}.000000"))
            with path.with_name(f"0.log.20260103-00000{number}.000000").open("a") as file:
                file.write(entry(20 + number, f"late {number}"))
            path.write_text(entry(30 + number, f"after {number}"))
            await reader.has(f"after {number}\n".encode())
    lines = reader.data.decode().splitlines()[4:]
    assert lines == [f"{what} {n}" for n in range(5) for what in ("before", "late", "after")]


async def test_lines_written_just_before_the_exit_are_read(path: Path) -> None:
    async with following(path) as (reader, ended):
        await reader.has(b"four\n")
        with path.open("a") as file:
            file.write(entry(6, "goodbye"))
        ended.set()
    assert reader.data.endswith(b"goodbye\n")
