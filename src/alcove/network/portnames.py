"""Names that a pod has for its ports, kept on its endpoints: policies may speak of another pod's ports by name,
and a node sees no more of other nodes' pods than ring0's endpoints and the pods' metadata. They never change."""

from __future__ import annotations

from collections.abc import Mapping

from alcove.api import objects
from alcove.api.objects import Object
from alcove.network.policy import NamedPort, peer_of

PORTS_MARK = "arktos.futurewei.com/ports"


def mark(pod: Object) -> Mapping[str, str]:
    """Annotations for the pod's endpoints; most have none."""
    messages = [f"{each.name}/{each.protocol}/{each.number}" for each in peer_of(pod, ()).ports]
    return {PORTS_MARK: ",".join(messages)} if messages else {}


def read(endpoint: Object) -> tuple[NamedPort, ...]:
    message = objects.annotations(endpoint).get(PORTS_MARK, "")
    parts = [each.split("/") for each in message.split(",") if each]
    return tuple(NamedPort(name, protocol, int(number)) for name, protocol, number in parts)
