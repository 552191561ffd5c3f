"""The thread that serves comes first; what it starts does not."""

import os
import subprocess
import threading

import pytest

from alcove.processes.priorities import (
    SERVER_RAISED_BY,
    raise_session_priority,
    raise_thread_priority,
    session_priority,
)


def _own() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_a_raised_thread_starts_threads_and_processes_of_usual_priority() -> None:
    main, found = _own(), []

    def serve() -> None:
        found.append(_own())
        raise_thread_priority(SERVER_RAISED_BY)
        found.append(_own())
        started = threading.Thread(target=lambda: found.append(_own()))
        started.start()
        started.join()
        found.append(int(subprocess.run(["nice"], capture_output=True, check=True).stdout))

    serving = threading.Thread(target=serve)
    serving.start()
    serving.join()
    before, raised, thread, process = found
    if raised == before:
        pytest.skip("this process may not raise priorities")
    assert raised == before - SERVER_RAISED_BY
    assert thread == process == max(raised, 0)
    assert _own() == main


def test_the_session_of_a_process_is_raised_and_those_that_it_starts_are_not() -> None:
    command = ["sh", "-c", "echo; read go; exec setsid --wait cat /proc/self/autogroup"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        raise_session_priority(process.pid, "apiserver")
        found = session_priority(process.pid)
        process.stdin.close()
        inner = process.stdout.read()
    if not found:
        pytest.skip("this kernel does not group processes by sessions, or this process may not raise one")
    assert found == -SERVER_RAISED_BY
    assert "nice 0" in inner
    assert session_priority(os.getpid()) > -SERVER_RAISED_BY
