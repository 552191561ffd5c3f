"""The containers of a pod's spec in start order, their roles, and whether one is restarted."""

from enum import Enum

from msgspec import Struct

from alcove.api.kinds.core.pods.totals import is_sidecar
from alcove.api.objects import Object


class ContainerRole(Enum):
    INIT = "init"
    """Runs to completion before the next starts."""
    SIDECAR = "sidecar"
    """Starts in order among the init containers, and keeps running beside the main containers."""
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Added to the running pod by a user, to debug it."""


class DesiredContainer(Struct, frozen=True):
    role: ContainerRole
    spec: Object

    @property
    def name(self) -> str:
        return str(self.spec["name"])


def desired_containers(spec: Object) -> list[DesiredContainer]:
    """All containers of a pod's spec, in start order."""
    containers = [
        DesiredContainer(ContainerRole.SIDECAR if is_sidecar(each) else ContainerRole.INIT, each)
        for each in spec.get("initContainers") or ()
    ]
    containers += [DesiredContainer(ContainerRole.MAIN, each) for each in spec.get("containers") or ()]
    containers += [
        DesiredContainer(ContainerRole.EPHEMERAL, each) for each in spec.get("ephemeralContainers") or ()
    ]
    return containers


def restart_rule(container: DesiredContainer, exit_code: int) -> str:
    """The action of the first restart rule for that exit code; empty if there is none."""
    for rule in container.spec.get("restartPolicyRules") or ():
        codes: Object = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return str(rule.get("action"))
    return ""


def restarts(container: DesiredContainer, spec: Object, exit_code: int) -> bool:
    """Whether a container that exited with that code is restarted."""
    match container.role:
        case ContainerRole.EPHEMERAL:
            return False
        case ContainerRole.SIDECAR:
            return True
        case ContainerRole.INIT if exit_code == 0:
            return False
    if restart_rule(container, exit_code):
        return True
    policy = container.spec.get("restartPolicy") or spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
