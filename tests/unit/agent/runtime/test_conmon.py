"""The arguments and messages of conmon, with a script in its place."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from alcove.agent.runtime import conmon
from alcove.agent.runtime.base import ContainerId, ContainerSpec, CreateFailed
from alcove.agent.runtime.bundle import Bundle


def make(
    folder: Path, terminal: bool = False, stdin: bool = False, once: bool = False
) -> tuple[Bundle, ContainerSpec]:
    config = {"linux": {"cgroupsPath": "/x"}, "process": {"terminal": terminal}}
    id = ContainerId("c1")
    spec = ContainerSpec(id, id, config, Path("/log"), {}, stdin, once)
    return Bundle.make(folder, spec), spec


def program(folder: Path, response: str) -> str:
    """Records its arguments, and writes the configured messages to the pipe that conmon would use."""
    path = folder / "conmon"
    lines = [
        f"#!{sys.executable}",
        "import os, sys",
        f"open({str(folder / 'arguments')!r}, 'w').write(' '.join(sys.argv))",
        f"os.write(int(os.environ['_OCI_SYNCPIPE']), {response.encode()!r})",
    ]
    path.write_text("\n".join(lines))
    path.chmod(0o755)
    return str(path)


async def test_conmon_is_called_with_the_options_of_the_container(tmp_path: Path) -> None:
    bundle, spec = make(tmp_path)
    path = program(tmp_path, '{"data": 42}\n')
    await conmon.create(path, Path("/runtime"), bundle, spec, {})
    message = (tmp_path / "arguments").read_text()
    assert "--runtime /runtime" in message
    assert "--cid c1_" in message
    assert "--log-path k8s-file:/log" in message
    assert "--terminal" not in message


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ('{"data": -1, "message": "no such file"}\n', "no such file"),
        ('{"data": -1}\n', "gave no reason"),
        ("", "without output"),
        ("not JSON\n", "not JSON"),
        ("x" * (1 << 17), "not JSON"),
    ],
)
async def test_a_failed_creation_is_an_error(tmp_path: Path, response: str, message: str) -> None:
    bundle, spec = make(tmp_path)
    with pytest.raises(CreateFailed, match=message):
        await conmon.create(program(tmp_path, response), Path("/runtime"), bundle, spec, {})


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("given", [b'{"data": 1}\n{"data": 2}\n', b'{"data": 1}', None])
def test_the_descriptor_of_an_answer_is_closed_once(
    new_loop: Callable[[], asyncio.AbstractEventLoop], given: bytes | None
) -> None:
    """Closed again, it would be a file that was opened meanwhile."""

    async def read() -> bytes:
        reading, writing = os.pipe()
        task = asyncio.create_task(conmon._read(reading))
        await asyncio.sleep(0.01)
        if given is None:
            task.cancel()
        else:
            os.write(writing, given)
        os.close(writing)
        try:
            return await task
        finally:
            opened.append(os.open(os.devnull, os.O_RDONLY))
            assert opened == [reading], "the number is free as soon as the answer is there"

    opened: list[int] = []
    with asyncio.Runner(loop_factory=new_loop) as runner:
        if given is None:
            with pytest.raises(asyncio.CancelledError):
                runner.run(read())
        else:
            assert runner.run(read()) == b'{"data": 1}'
    gc.collect()
    os.close(opened[0])


@pytest.mark.parametrize(
    ("terminal", "stdin", "once", "expected"),
    [
        (False, False, False, set()),
        (True, False, False, {"--terminal"}),
        (False, True, False, {"--stdin", "--leave-stdin-open"}),
        (True, True, True, {"--terminal", "--stdin"}),
    ],
)
def test_streams(tmp_path: Path, terminal: bool, stdin: bool, once: bool, expected: set[str]) -> None:
    bundle, spec = make(tmp_path, terminal, stdin, once)
    arguments = set(conmon._arguments(Path("/runtime"), bundle, spec))
    assert arguments & {"--terminal", "--stdin", "--leave-stdin-open"} == expected


def test_the_log_of_an_exited_container_is_not_opened_again(tmp_path: Path) -> None:
    bundle, _ = make(tmp_path)
    conmon.reopen_log(bundle)
