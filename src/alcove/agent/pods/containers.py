"""The containers of a pod in the order they matter, what they are for, and whether one runs again."""

from enum import Enum

from msgspec import Struct

from alcove.api.kinds.core.pods.totals import is_sidecar
from alcove.api.objects import Object


class ContainerRole(Enum):
    INIT = "init"
    """Runs to its end before the next begins."""
    SIDECAR = "sidecar"
    """Begins in its turn among the init containers, and goes on beside the others."""
    MAIN = "main"
    EPHEMERAL = "ephemeral"
    """Joined later by somebody who looks into the pod."""


class DesiredContainer(Struct, frozen=True):
    role: ContainerRole
    spec: Object

    @property
    def name(self) -> str:
        return str(self.spec["name"])


def desired_containers(spec: Object) -> list[DesiredContainer]:
    """All containers of a pod's spec: those that start first come first."""
    found = [
        DesiredContainer(ContainerRole.SIDECAR if is_sidecar(each) else ContainerRole.INIT, each)
        for each in spec.get("initContainers") or ()
    ]
    found += [DesiredContainer(ContainerRole.MAIN, each) for each in spec.get("containers") or ()]
    found += [
        DesiredContainer(ContainerRole.EPHEMERAL, each) for each in spec.get("ephemeralContainers") or ()
    ]
    return found


def restarts(container: DesiredContainer, spec: Object, exit_code: int) -> bool:
    """Whether a container that ended so runs again."""
    match container.role:
        case ContainerRole.EPHEMERAL:
            return False
        case ContainerRole.SIDECAR:
            return True
        case ContainerRole.INIT if exit_code == 0:
            return False
    for rule in container.spec.get("restartPolicyRules") or ():
        codes: Object = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return bool(rule.get("action") == "Restart")
    policy = container.spec.get("restartPolicy") or spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
