"""`alcove tenant sleep` and `alcove tenant wake`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from alcove.cli.errors import exit_on_error
from alcove.cli.options import KubeconfigOption, TenantArgument, TimeoutOption, WaitOption

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession


def sleep(
    name: TenantArgument,
    wait: WaitOption = True,
    timeout: TimeoutOption = 120.0,
    via: KubeconfigOption = None,
) -> None:
    """Put a tenant to sleep, and wait until its pods have ended, and its own API server if it has one: its objects,
    volumes and services stay."""
    from alcove.cli.session import CliSession, wait_for

    with exit_on_error():
        session = CliSession(via)
        _set(session, name, {"asleep": True, "wakeTime": None})
        if wait:
            wait_for(f"tenant {name} to fall asleep", lambda: _is(session, name, asleep=True), timeout)
            wait_for(f"the pods of tenant {name} to end", lambda: _has_ended(session, name), timeout)
    typer.echo(f"tenant/{name} is asleep; to wake it: alcove tenant wake {name}")


def wake(
    name: TenantArgument,
    wait: WaitOption = True,
    timeout: TimeoutOption = 120.0,
    via: KubeconfigOption = None,
) -> None:
    """Wake a tenant, whatever it sleeps for: its pods are scheduled again."""
    from alcove.api import meta
    from alcove.cli.session import CliSession, wait_for

    with exit_on_error():
        session = CliSession(via)
        _set(session, name, {"asleep": None, "wakeTime": meta.format_time(time.time())})
        if wait:
            wait_for(f"tenant {name} to wake", lambda: _is(session, name, asleep=False), timeout)
            wait_for(f"the API server of tenant {name}", lambda: _has_server(session, name), timeout)
    typer.echo(f"tenant/{name} is awake")


def _set(session: CliSession, name: str, sleep: Object) -> None:
    from alcove.client.resources import TENANTS

    session.patch(TENANTS, name, {"spec": {"sleep": sleep}})


def _is(session: CliSession, name: str, *, asleep: bool) -> bool | None:
    from alcove.api.kinds.core.sleep import is_asleep
    from alcove.client.resources import TENANTS

    return True if is_asleep(session.get(TENANTS, name)) == asleep else None


def _has_server(session: CliSession, name: str) -> bool | None:
    """Whether an API server serves the tenant: a dedicated one is stopped while the tenant is asleep."""
    from alcove.api.kinds.core.plane_sleep import is_stopped
    from alcove.client.resources import TENANTS

    return None if is_stopped(session.get(TENANTS, name)) else True


def _has_ended(session: CliSession, name: str) -> bool | None:
    """Whether no pod of the tenant is on a node and not finished. A dedicated API server is stopped after them; asking it
    would start it again."""
    from alcove.api.kinds.core.control_planes import is_dedicated
    from alcove.api.kinds.core.plane_sleep import is_stopped
    from alcove.client.resources import PODS, TENANTS

    tenant = session.get(TENANTS, name)
    if is_dedicated(tenant):
        return True if is_stopped(tenant) else None
    query = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
    return None if session.items(PODS, name, **query) else True
