"""Adds default tolerations: pods stay for five minutes on a node that is not ready or unreachable."""

from alcove.api.ids import GroupResource
from alcove.api.resources import PODS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

SECONDS = 300
TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        # On update too: a client that replaces a pod without these tolerations must not remove them.
        return operation in (Operation.CREATE, Operation.UPDATE) and resource == PODS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj["spec"]
        existing = spec.get("tolerations") or ()
        named = {each.get("key", "") for each in existing if each.get("effect", "") in ("", "NoExecute")}
        if "" in named:
            return
        missing = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
            for key in TAINTS
            if key not in named
        ]
        if missing:
            spec["tolerations"] = [*existing, *missing]
