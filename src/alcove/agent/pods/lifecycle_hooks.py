"""Lifecycle hooks: what a container wants to be done right after it starts and right before it stops."""

from __future__ import annotations

import asyncio

from alcove.agent.pods.executor import PodExecutor
from alcove.agent.probes import checks
from alcove.agent.runtime.base import ContainerId
from alcove.api.objects import Object


class HookFailed(Exception):
    pass


async def run(hook: Object, container: Object, executor: PodExecutor, id: ContainerId) -> None:
    """HookFailed says what went wrong; there is no time limit here."""
    if "sleep" in hook:
        await asyncio.sleep(float(hook["sleep"].get("seconds") or 0))
        return
    found = await checks.check(hook, container, executor, id)
    if not found.is_good:
        raise HookFailed(found.message)
