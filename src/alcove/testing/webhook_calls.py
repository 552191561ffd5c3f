"""The parts of webhook calls, for tests: real ones, with an authority of their own."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from alcove.api.destinations import Network
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.outbound.dialer import DirectDialer
from alcove.apiserver.outbound.node_addresses import NodeAddresses
from alcove.apiserver.outbound.resolver import OutboundResolver
from alcove.apiserver.outbound.tunnels import ServiceTunnels
from alcove.apiserver.outbound.webhook_dialer import WebhookDialer
from alcove.apiserver.reader import CacheReader
from alcove.apiserver.streams.agents import AgentConnector
from alcove.testing.memory_reader import MemoryReader


def service_tunnels(reader: CacheReader, allowed: tuple[Network, ...] = ()) -> ServiceTunnels:
    with TemporaryDirectory() as folder:
        now = time.time()
        authority = CertificateAuthority.open(Path(folder), now)
        agents = AgentConnector(Path(folder), authority, time.time)
    return ServiceTunnels(reader, agents, DirectDialer(NodeAddresses(reader), allowed))


def webhook_dialer(allowed: tuple[Network, ...] = (), reader: CacheReader | None = None) -> WebhookDialer:
    """`allowed`: networks where tenants' webhooks are allowed."""
    reader = reader or MemoryReader()
    direct = DirectDialer(NodeAddresses(reader), allowed)
    return WebhookDialer(OutboundResolver(reader), direct, service_tunnels(reader, allowed))
