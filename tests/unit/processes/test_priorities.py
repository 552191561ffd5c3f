"""The thread that serves comes first; what it starts does not."""

import os
import subprocess
import threading

import pytest

from alcove.processes.priorities import RAISED_BY, raise_thread_priority


def _own() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_a_raised_thread_starts_threads_and_processes_of_usual_priority() -> None:
    before, found = _own(), []

    def serve() -> None:
        raise_thread_priority()
        found.append(_own())
        started = threading.Thread(target=lambda: found.append(_own()))
        started.start()
        started.join()
        found.append(int(subprocess.run(["nice"], capture_output=True, check=True).stdout))

    serving = threading.Thread(target=serve)
    serving.start()
    serving.join()
    raised, thread, process = found
    if raised == before:
        pytest.skip("this process may not raise priorities")
    assert raised == before - RAISED_BY
    assert thread == process == max(raised, 0)
    assert _own() == before
