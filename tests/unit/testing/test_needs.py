"""Checks of what the machine has: the same answer to everybody who asks at once, and no defect called a lack."""

import asyncio
import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from alcove.dataplane import build, namespaces
from alcove.dataplane.errors import KernelRefused
from alcove.testing import containers, needs

ASKERS, ROUNDS = 3, 10
AT_ONCE = multiprocessing.get_context("fork")


def all_at_once(ask: Callable[[], str], rounds: int) -> Counter[str]:
    """The results of several processes that ask at the same moments."""
    together = AT_ONCE.Barrier(ASKERS)
    with AT_ONCE.Manager() as shared:
        answers = shared.list()
        askers = [AT_ONCE.Process(target=_ask, args=(ask, rounds, together, answers)) for _ in range(ASKERS)]
        for each in askers:
            each.start()
        for each in askers:
            each.join()
        return Counter(answers)


def _ask(ask: Callable[[], str], rounds: int, together: Barrier, answers: list[str]) -> None:
    for _ in range(rounds):
        together.wait(60)
        try:
            answers.append(ask())
        except Exception as error:
            answers.append(repr(error))


def _afresh() -> str:
    for each in (needs.namespaces, needs.bpf, needs.loop_devices):
        each.cache_clear()
    return containers.lacking() or needs.bpf() or needs.loop_devices()


def test_processes_that_look_at_the_same_moment_get_the_same_result() -> None:
    assert all_at_once(_afresh, ROUNDS) == {_afresh(): ASKERS * ROUNDS}


@pytest.mark.skipif(bool(needs.bpf()), reason=needs.bpf())
def test_processes_that_compile_at_the_same_moment_have_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, cache = tmp_path / "sources", tmp_path / "cache"
    sources.mkdir()
    cache.mkdir()
    (sources / "alcove.c").write_text("int one;\n")
    monkeypatch.setattr(build, "sources_folder", lambda: sources)
    result = all_at_once(lambda: f"{build.build(cache).stat().st_size > 0}", 3)
    assert result == {"True": 3 * ASKERS} and len(list(cache.iterdir())) == 1


@pytest.mark.root
@pytest.mark.skipif(bool(containers.lacking() or needs.tools("crun")), reason="needs containers and crun")
def test_processes_that_prove_a_runtime_at_the_same_moment_all_succeed() -> None:
    def prove() -> str:
        containers._FLAVORS.clear()
        return asyncio.run(containers.working_flavor("crun"))[1]

    assert all_at_once(prove, 2) == {"": 2 * ASKERS}


@pytest.mark.root
@pytest.mark.skipif(bool(needs.namespaces()), reason=needs.namespaces())
def test_what_fails_unexpectedly_is_no_lack() -> None:
    in_the_way = namespaces.path_of(f"alcove-probe-{os.getpid()}")
    needs.namespaces.cache_clear()
    in_the_way.mkdir()
    try:
        with pytest.raises((KernelRefused, OSError)):
            needs.namespaces()
    finally:
        in_the_way.rmdir()


@pytest.mark.skipif(bool(needs.root() or needs.tools("setpriv")), reason="needs root and setpriv")
def test_rights_that_are_missing_are_a_lack() -> None:
    script = "from alcove.testing import needs; print(needs.namespaces())"
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"needs network namespaces: create network namespace: {os.strerror(errno.EPERM)}\n"


def test_tools_that_are_missing_are_named() -> None:
    assert shutil.which("sh") and needs.tools("sh") == ""
    assert needs.tools("sh", "no-such-tool", "nor-this") == "needs no-such-tool, nor-this"
