"""Lifecycle hooks of containers: postStart and preStop."""

from __future__ import annotations

import asyncio

from alcove.agent.pods.executor import PodExecutor
from alcove.agent.probes import checks
from alcove.agent.runtime.base import ContainerId
from alcove.api.objects import Object


class HookFailed(Exception):
    pass


async def run(hook: Object, container: Object, executor: PodExecutor, id: ContainerId) -> None:
    """Runs the hook without a time limit. Raises HookFailed."""
    if "sleep" in hook:
        await asyncio.sleep(float(hook["sleep"].get("seconds") or 0))
        return
    result = await checks.check(hook, container, executor, id)
    if not result.is_good:
        raise HookFailed(result.message)
