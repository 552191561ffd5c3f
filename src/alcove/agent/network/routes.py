"""Source routes in a pod with several interfaces: packets from an address leave by that address' interface.

By the default route they would leave by the first interface, where the data plane drops them as spoofed.
"""

import errno
from collections.abc import Sequence
from typing import Any

from pyroute2 import IPRoute, NetlinkError

from alcove.api.kinds.ranges import gateway
from alcove.dataplane.model import Veth
from alcove.dataplane.namespaces import inside

FIRST_TABLE = 100


def add_source_routes(namespace: int, veths: Sequence[Veth]) -> None:
    """Safe to repeat. Must not be called on a thread that runs an event loop."""
    if len(veths) < 2:
        return
    with inside(namespace):
        route = IPRoute()
    with route:
        for table, veth in enumerate(veths[1:], FIRST_TABLE):
            [index] = route.link_lookup(ifname=veth.pod_interface)
            for address in veth.addresses:
                via, family = str(gateway(address.network)), 2 if address.version == 4 else 10
                _add_rule(
                    route, src=str(address.ip), src_len=address.max_prefixlen, table=table, family=family
                )
                route.route("replace", gateway=via, oif=index, table=table, family=family)


def _add_rule(route: IPRoute, **rule: Any) -> None:
    try:
        route.rule("add", **rule)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
