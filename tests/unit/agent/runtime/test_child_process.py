"""Child processes: exit codes, output, descriptors, and that starting them does not copy the agent's memory."""

import asyncio
import mmap
import os
import resource
import signal
from pathlib import Path

import pytest

from alcove.agent.runtime.child_process import CapturedOutput, ChildProcess

SH = "/bin/sh"


def children() -> set[int]:
    """Of this process, zombies included."""
    lines = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return {int(word) for line in lines for word in line.split()}


async def test_the_exit_code_and_the_output_are_the_programs() -> None:
    with CapturedOutput() as output, CapturedOutput() as errors:
        child = ChildProcess(
            [SH, "-c", "echo out; echo err >&2; exit 3"], stdout=output.descriptor, stderr=errors.descriptor
        )
        assert await child.wait() == child.returncode == 3
        assert (output.read(), errors.read()) == (b"out\n", b"err\n")


async def test_output_does_not_wait_for_processes_left_behind() -> None:
    with CapturedOutput() as output:
        child = ChildProcess([SH, "-c", "echo first; sleep 60 & echo $!"], stdout=output.descriptor)
        async with asyncio.timeout(30):
            assert await child.wait() == 0
        first, left = output.read().split()
        os.kill(int(left), signal.SIGKILL)
        assert first == b"first"


async def test_a_killed_process_is_reaped() -> None:
    child = ChildProcess(["sleep", "60"])
    waiting = asyncio.create_task(child.wait())
    await asyncio.sleep(0)
    assert child.returncode is None
    assert child.pid in children()
    child.kill()
    assert await waiting == -signal.SIGKILL
    assert child.pid not in children()


async def test_a_cancelled_wait_leaves_the_process_running() -> None:
    child = ChildProcess(["sleep", "60"])
    waiting = asyncio.create_task(child.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert child.returncode is None
    child.kill()
    await child.wait()


async def test_it_has_the_given_descriptors_only(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    kept = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(kept, True)
    with CapturedOutput() as output:
        child = ChildProcess(
            [SH, "-c", f"cd /proc/self/fd; [ -e {writing} ] && [ ! -e {kept} ] && echo right"],
            stdout=output.descriptor,
            pass_fds=(writing,),
        )
        await child.wait()
        assert output.read() == b"right\n"
    for each in (reading, writing, kept):
        os.close(each)


async def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        ChildProcess(["/nonexistent/program"])


async def test_memory_is_not_copied() -> None:
    """After a fork, each written page is a page fault of the parent."""
    pages = 16_384
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)

        def write_all() -> int:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for page in range(pages):
                memory[page * mmap.PAGESIZE] = 1
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        write_all()
        await ChildProcess(["true"]).wait()
        assert write_all() < pages // 10
