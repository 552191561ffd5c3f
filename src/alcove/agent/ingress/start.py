"""Starts the ingress as one task of the agent, in the node's network namespace. The server runs in a thread
of its own; the agent's loop reads the objects and opens the connections to backends."""

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from alcove.agent.ingress.certificates import IngressCertificates
from alcove.agent.ingress.gateway_dialer import GatewaySource, gateway_dial
from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.reconciler import IngressReconciler, Note
from alcove.agent.ingress.server import IngressServer
from alcove.agent.ingress.targets import TenantServices
from alcove.agent.ingress.traffic import IngressTraffic
from alcove.client.events import WARNING, EventRecorder, PendingEvent
from alcove.client.keys import TenantKey
from alcove.client.planes import Planes
from alcove.client.resources import INGRESSES
from alcove.component.loop_threads import called_on_this_loop, run_in_thread
from alcove.component.tasks import BackgroundTasks
from alcove.network.ingress.domains import DomainGrants
from alcove.network.ingress.ingress_spec import DesiredIngress

log = logging.getLogger(__name__)

COMPONENT = "alcove-ingress"


class IngressNetworks(Protocol):
    """The node's networks; implemented by `agent.network.node_network.NodeNetwork`."""

    def present(self) -> Mapping[TenantKey, TenantServices]: ...
    def exit_of(self, tenant_key: TenantKey, network: str) -> GatewaySource | None: ...
    def open_gateway(self, vni: int) -> int: ...
    def listen(self, on_change: Callable[[], None]) -> None: ...


def noting(recorder: EventRecorder, node: str) -> Note:
    """A callback that records warning events of Ingresses."""

    def note(tenant_key: TenantKey, ingress: DesiredIngress, reason: str, message: str) -> None:
        involved = {
            "apiVersion": INGRESSES.api_version, "kind": INGRESSES.kind, "namespace": ingress.namespace,
            "name": ingress.name, "uid": ingress.uid,
        }  # fmt: skip
        recorder.record(
            PendingEvent(
                tenant_key.plane, tenant_key.tenant, involved, WARNING, reason, message, COMPONENT, node
            )
        )

    return note


def bind(address: str, port: int) -> list[socket.socket]:
    """A listening socket. Empty if the port is 0, or in use: then a warning is logged, and the agent runs
    without it."""
    if not port:
        return []
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return [socket.create_server((address, port), family=family, backlog=1024)]
    except OSError as error:
        log.warning(
            "failed to listen for ingress", extra={"address": address, "port": port, "error": str(error)}
        )
        return []


async def serve(
    planes: Planes,
    networks: IngressNetworks,
    note: Note,
    plain: Iterable[socket.socket],
    secure: Iterable[socket.socket],
    limits: IngressLimits | None = None,
    traffic: IngressTraffic | None = None,
) -> None:
    """Serves HTTP on the plain sockets and HTTPS on the secure ones until cancelled."""
    dial = called_on_this_loop(gateway_dial(networks.open_gateway, networks.exit_of))
    server = IngressServer(dial, limits, traffic)
    grants = DomainGrants()
    certificates = IngressCertificates(grants)
    reconciler = IngressReconciler(planes, server, certificates, grants, networks.present, note)
    networks.listen(reconciler.touch)
    async with BackgroundTasks() as tasks:
        tasks.fatal("ingress objects", reconciler.run())
        tasks.fatal(
            "ingress server",
            run_in_thread("ingress", lambda: server.run(plain, secure, certificates.context)),
        )
