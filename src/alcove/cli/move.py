"""`alcove tenant move`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import exit_on_error
from alcove.cli.options import KubeconfigOption, TenantArgument, TimeoutOption, WaitOption

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession


class MoveTarget(Enum):
    SHARED = "shared"
    DEDICATED = "dedicated"


def move(
    name: TenantArgument,
    to: Annotated[
        MoveTarget, typer.Option(help="The API server that is to serve the tenant.", show_default=False)
    ],
    wait: WaitOption = True,
    timeout: TimeoutOption = 300.0,
    via: KubeconfigOption = None,
) -> None:
    """Move a tenant to an API server of its own, or back to the shared one, and wait until it is there. Its objects, pods and
    addresses stay; its clients get 503 for a moment, and list again."""
    from alcove.cli.session import CliSession, wait_for
    from alcove.client.resources import TENANTS

    mode = "Dedicated" if to is MoveTarget.DEDICATED else "Shared"
    with exit_on_error():
        session = CliSession(via)
        session.patch(TENANTS, name, {"spec": {"controlPlane": {"mode": mode}}})
        if wait:
            progress = _Progress()
            wait_for(f"tenant {name} to move", lambda: _has_moved(session, name, mode, progress), timeout)
    typer.echo(f"tenant/{name} {'is' if wait else 'will be'} served by a {to.value} API server")


class _Progress:
    """Prints what the condition `Moving` says, whenever that changes."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, condition: Object) -> None:
        text = f"{condition.get('reason')}: {condition.get('message')}"
        if condition.get("status") == "True" and text != self._shown:
            self._shown = text
            typer.echo(text, err=True)


def _has_moved(session: CliSession, name: str, mode: str, progress: _Progress) -> bool | None:
    from alcove.api import objects
    from alcove.api.kinds.core.control_planes import MOVING, serving_mode
    from alcove.client.resources import TENANTS

    tenant = session.get(TENANTS, name)
    conditions = objects.get(tenant, "status", "conditions", default=None) or ()
    moving: Object = next((each for each in conditions if each.get("type") == MOVING), {})
    progress.show(moving)
    return True if serving_mode(tenant) == mode and moving.get("status") != "True" else None
