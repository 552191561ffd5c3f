"""How a network does now, for `alcove network show`: what it carries, what it drops, and whether its services have backends."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from alcove.api import objects
from alcove.cli.top_networks import FLOWS_MAX, RECENT_SECONDS, NetworkLoad, loads
from alcove.network import wellknown

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession

DROPS_SECONDS = 600
DROPS_SHOWN = 5
SERVICE_LABEL = "kubernetes.io/service-name"


class NetworkHealth(Struct, frozen=True):
    load: NetworkLoad
    seconds: float
    """In which the load was measured."""
    drops: list[Object]
    """Of the last DROPS_SECONDS, the newest first."""

    def facts(self) -> dict[str, object]:
        load = self.load
        reasons = ", ".join(reason for reason, _ in load.drops.most_common(1))
        return {
            "Connections": load.connections,
            "Bytes/s": round(load.bytes / self.seconds),
            "Packets/s": round(load.packets / self.seconds),
            "Drops/s": f"{load.drops.total() / self.seconds:.1f}" + (f" ({reasons})" if reasons else ""),
        }


def health(session: CliSession, tenant: str, network: str, interval: float) -> NetworkHealth:
    """Measures for `interval` seconds."""
    from alcove.cli.flows import FlowQuery

    query = FlowQuery(tenant, "", "", "", RECENT_SECONDS, FLOWS_MAX)
    before, began = query.fetch(session, RECENT_SECONDS), time.monotonic()
    time.sleep(interval)
    after = query.fetch(session, RECENT_SECONDS)
    load = loads(before, after).get((tenant, network), NetworkLoad())
    seconds = time.monotonic() - began
    dropped = FlowQuery(tenant, "", "", "dropped", DROPS_SECONDS, FLOWS_MAX).fetch(session, DROPS_SECONDS)
    return NetworkHealth(load, seconds, [each for each in dropped if each["network"] == network])


def backends(services: Collection[Object], slices: Iterable[Object]) -> dict[tuple[str, str], str]:
    """Ready backends of all, such as `2/3`, by namespace and name of the service. Each node has one of the network's own
    services, its DNS and API server, which are not counted. Pure."""
    counts: dict[tuple[str, str], Mapping[str, bool]] = {
        (objects.namespace(each), objects.name(each)): {} for each in services
    }
    for each in slices:
        key = objects.namespace(each), objects.labels(each).get(SERVICE_LABEL, "")
        if key not in counts:
            continue
        ready = {
            address: (endpoint.get("conditions") or {}).get("ready") is not False
            for endpoint in each.get("endpoints") or ()
            for address in endpoint.get("addresses") or ()
        }
        counts[key] = {**counts[key], **ready}
    own = {(objects.namespace(each), objects.name(each)) for each in services if wellknown.is_ours(each)}
    shown = {key: f"{sum(each.values())}/{len(each)}" for key, each in counts.items()}
    return shown | dict.fromkeys(own, "nodes")
