"""A node does not run what reaches it, even if its API servers let it through."""

from __future__ import annotations

import pytest

from alcove.agent.pods.admission import check_security
from alcove.agent.pods.executor import PodRejected
from alcove.agent.runtime.base import Isolation
from alcove.api.objects import Object

PRIVILEGED: Object = {"name": "a", "securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"hostNetwork": True}, "PodForbidden"),
        ({"hostPID": True}, "PodForbidden"),
        ({"hostIPC": True}, "PodForbidden"),
        ({"containers": [PRIVILEGED]}, "PodForbidden"),
        ({"initContainers": [PRIVILEGED]}, "PodForbidden"),
        ({"ephemeralContainers": [PRIVILEGED]}, "PodForbidden"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "PodForbidden"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "SysctlForbidden"),
    ],
)
@pytest.mark.parametrize("isolation", [Isolation.NAMESPACES, Isolation.SANDBOX])
def test_tenants_pods_that_reach_the_node(spec: Object, reason: str, isolation: Isolation) -> None:
    with pytest.raises(PodRejected) as raised:
        check_security(spec, isolation, is_ring0=False)
    assert raised.value.reason == reason
    check_security(spec, Isolation.NAMESPACES, is_ring0=True)


@pytest.mark.parametrize("field", ["hostPID", "hostIPC"])
def test_what_a_sandbox_cannot_give_is_not_left_out_silently(field: str) -> None:
    with pytest.raises(PodRejected, match="crun or runc"):
        check_security({field: True}, Isolation.SANDBOX, is_ring0=True)


def test_ordinary_pods() -> None:
    check_security(
        {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}, Isolation.SANDBOX, is_ring0=False
    )
