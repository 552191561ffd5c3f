"""Named ports of a pod, stored as an annotation on its endpoints.

Policies may refer to another pod's ports by name, but of pods on other nodes a node sees only ring0's
endpoints and the pods' metadata. A pod's named ports never change.
"""

from __future__ import annotations

from collections.abc import Mapping

from alcove.api import objects
from alcove.api.objects import Object
from alcove.network.policy import NamedPort, peer_of

PORTS_MARK = "arktos.futurewei.com/ports"


def mark(pod: Object) -> Mapping[str, str]:
    """Annotations for the pod's endpoints; empty if the pod has no named ports."""
    ports = [f"{each.name}/{each.protocol}/{each.number}" for each in peer_of(pod, ()).ports]
    return {PORTS_MARK: ",".join(ports)} if ports else {}


def read(endpoint: Object) -> tuple[NamedPort, ...]:
    value = objects.annotations(endpoint).get(PORTS_MARK, "")
    parts = [each.split("/") for each in value.split(",") if each]
    return tuple(NamedPort(name, protocol, int(number)) for name, protocol, number in parts)
