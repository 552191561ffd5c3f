"""Routes in a pod that has several interfaces: what is answered from an address goes out by that address' interface.

By the first interface, where the way to everywhere is, it would be taken for a forgery.
"""

import errno
from collections.abc import Sequence
from typing import Any

from pyroute2 import IPRoute, NetlinkError

from alcove.api.kinds.ranges import gateway
from alcove.dataplane.model import Veth
from alcove.dataplane.namespaces import inside

FIRST_TABLE = 100


def add_source_routes(namespace: int, ports: Sequence[Veth]) -> None:
    """Safe to repeat. Not to be called on a thread that runs an event loop."""
    if len(ports) < 2:
        return
    with inside(namespace):
        route = IPRoute()
    with route:
        for table, veth in enumerate(ports[1:], FIRST_TABLE):
            [index] = route.link_lookup(ifname=veth.pod_interface)
            for one in veth.addresses:
                via, family = str(gateway(one.network)), 2 if one.version == 4 else 10
                _add_rule(route, src=str(one.ip), src_len=one.max_prefixlen, table=table, family=family)
                route.route("replace", gateway=via, oif=index, table=table, family=family)


def _add_rule(route: IPRoute, **rule: Any) -> None:
    try:
        route.rule("add", **rule)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
