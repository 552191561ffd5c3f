"""Which runtime a handler gets: the requested one or an error, never a weaker one."""

from pathlib import Path

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.base import ContainerRuntime, HandlerName, NoSuchHandler, RuntimeFailure
from alcove.agent.runtime.handlers import RuntimeHandlers, prove_all, prove_more
from alcove.agent.runtime.hollow import HollowRuntime


def runtime(name: str) -> ContainerRuntime:
    made = HollowRuntime()
    made.handler = HandlerName(name)
    return made


def handlers(proven: list[str], failed: list[str]) -> RuntimeHandlers:
    return RuntimeHandlers(
        {HandlerName(name): runtime(name) for name in proven},
        {HandlerName(name): "it died" for name in failed},
    )


@pytest.mark.parametrize(
    ("proven", "failed", "asked", "is_trusted", "expected"),
    [
        (["crun", "gvisor"], [], "", False, "gvisor"),
        (["crun", "gvisor"], [], "", True, "crun"),
        (["crun", "gvisor"], [], "crun", False, "crun"),
        (["crun", "gvisor"], [], "runsc", False, "gvisor"),
        (["crun"], [], "", False, "crun"),
        (["runc"], [], "", True, "runc"),
        (["gvisor"], [], "", True, "gvisor"),
        (["hollow"], [], "", False, "hollow"),
        (["crun"], ["gvisor"], "", True, "crun"),
    ],
)
def test_picks(proven: list[str], failed: list[str], asked: str, is_trusted: bool, expected: str) -> None:
    assert handlers(proven, failed).pick(asked, is_trusted=is_trusted).handler == expected


@pytest.mark.parametrize(
    ("proven", "failed", "asked", "is_trusted", "why"),
    [
        (["crun"], [], "gvisor", False, "it is not installed"),
        (["crun"], ["gvisor"], "gvisor", False, "it died"),
        (["crun"], ["gvisor"], "", False, "it died"),
        (["gvisor"], ["crun"], "", True, "it died"),
        (["gvisor"], [], "kata", False, "kata"),
        ([], [], "", False, "no container runtime"),
        (["hollow"], ["gvisor"], "", False, "it died"),
    ],
)
def test_never_something_weaker(
    proven: list[str], failed: list[str], asked: str, is_trusted: bool, why: str
) -> None:
    with pytest.raises(NoSuchHandler, match=why):
        handlers(proven, failed).pick(asked, is_trusted=is_trusted)


@pytest.mark.parametrize(
    ("proven", "failed", "expected"),
    [
        (["crun", "gvisor"], [], True),
        (["crun"], [], True),
        (["crun"], ["gvisor"], False),
        (["gvisor"], ["crun"], True),
        ([], [], False),
    ],
)
def test_whether_tenants_pods_run(proven: list[str], failed: list[str], expected: bool) -> None:
    assert handlers(proven, failed).runs_tenants() is expected


def test_a_node_reports_its_proven_handlers() -> None:
    assert handlers(["crun", "gvisor"], ["runc"]).names() == ["crun", "gvisor", "runsc"]


async def test_what_is_installed_but_runs_nothing_is_not_proven(tmp_path: Path) -> None:
    async def dies(_: ContainerRuntime) -> None:
        raise RuntimeFailure("it died")

    found = await prove_all(tmp_path, Cgroups(""), dies)
    assert found.proven == {}
    assert all("it died" in why or "not installed" in why for why in found.failed.values())


async def test_what_was_proven_is_not_proven_again(tmp_path: Path) -> None:
    tried: list[str] = []

    async def canary(runtime: ContainerRuntime) -> None:
        tried.append(runtime.handler)

    first = await prove_all(tmp_path, Cgroups(""), canary)
    before = list(tried)
    second = await prove_all(tmp_path, Cgroups(""), canary)
    assert tried == before
    assert second.names() == first.names()


async def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    tried: list[str] = []

    async def canary(runtime: ContainerRuntime) -> None:
        tried.append(runtime.handler)
        raise RuntimeFailure("it died")

    await prove_all(tmp_path, Cgroups(""), canary)
    before = len(tried)
    await prove_all(tmp_path, Cgroups(""), canary)
    assert len(tried) == 2 * before


async def test_what_failed_can_be_proven_later(tmp_path: Path) -> None:
    is_busy = True

    async def canary(_runtime: ContainerRuntime) -> None:
        if is_busy:
            raise RuntimeFailure("too slow")

    found = await prove_all(tmp_path, Cgroups(""), canary)
    if not found.failed:
        pytest.skip("no runtime is installed")
    assert not await prove_more(found, tmp_path, Cgroups(""), canary)
    is_busy = False
    assert await prove_more(found, tmp_path, Cgroups(""), canary)
    assert found.proven and not found.failed
