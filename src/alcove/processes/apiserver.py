"""`alcove apiserver`: opens the store, fills the watch cache, wires the request pipeline, and serves."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from msgspec import Struct, structs

from alcove.api import registry
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.registry import KindRegistry
from alcove.apiserver.activity import UserActivity
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.admission.order import plugins
from alcove.apiserver.admission.services.clusterips import ClusterIps
from alcove.apiserver.admission.services.repair import claim_missing
from alcove.apiserver.aggregation import local_services
from alcove.apiserver.aggregation.connections import ExtensionConnections
from alcove.apiserver.aggregation.documents import ExtensionDocuments
from alcove.apiserver.aggregation.front_proxy import FrontProxy
from alcove.apiserver.aggregation.proxying import ExtensionProxy
from alcove.apiserver.aggregation.registrations import Registrations
from alcove.apiserver.aggregation.trust import ExtensionTrust
from alcove.apiserver.app import App, AppParts
from alcove.apiserver.audit import AuditLog
from alcove.apiserver.auth import bootstrap, signingkeys
from alcove.apiserver.auth.authenticate import Authenticator
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.oidc.authentication import OidcAuthentication
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts
from alcove.apiserver.auth.oidc.providers import ProviderParts
from alcove.apiserver.auth.revocations import RevokedConnections
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.auth.statictokens import StaticTokens
from alcove.apiserver.auth.tls import ServerCertificate
from alcove.apiserver.auth.tokenrequests import TokenRequests
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEvent
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.console import sealing
from alcove.apiserver.console.ended import EndedSessions
from alcove.apiserver.console.gate import ConsoleGate
from alcove.apiserver.console.oidc_sign_in import OidcSignIn
from alcove.apiserver.console.sessions import ConsoleSessions
from alcove.apiserver.crds.conversion import ConversionParts
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.discovery import Discovery
from alcove.apiserver.flow import FlowController, FlowLimits, weights
from alcove.apiserver.identity import Identity
from alcove.apiserver.metering import LoopMeter
from alcove.apiserver.metrics import ApiServerMetrics
from alcove.apiserver.openapi.documents import OpenApi
from alcove.apiserver.outbound.dialer import DirectDialer
from alcove.apiserver.outbound.node_addresses import NodeAddresses
from alcove.apiserver.outbound.resolver import OutboundResolver
from alcove.apiserver.outbound.tunnels import ServiceTunnels
from alcove.apiserver.outbound.webhook_dialer import WebhookDialer
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.apiserver.planes.closed_tenants import ClosedTenants
from alcove.apiserver.planes.plane_servers import PlaneServers
from alcove.apiserver.planes.proxy import PlaneConnections, PlaneProxy
from alcove.apiserver.planes.tenant_content import TenantContent
from alcove.apiserver.priority.divisions import Divisions
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.request_buffering import RequestBuffering
from alcove.apiserver.request_recorder import RequestRecorder
from alcove.apiserver.resources.crdremoval import CrdRemoval
from alcove.apiserver.resources.handlers import ResourceHandlers
from alcove.apiserver.resources.subresources import Subresources
from alcove.apiserver.responses import http_error_response
from alcove.apiserver.reviews import Reviews
from alcove.apiserver.routes import Routes
from alcove.apiserver.seating import RequestSeats
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.sight.sight_api import SightApi
from alcove.apiserver.streams.agents import AgentConnector
from alcove.apiserver.streams.connect import StreamHandler
from alcove.apiserver.streams.proxy_targets import path_of
from alcove.apiserver.usage.api_time import ApiTimeMeter
from alcove.apiserver.usage.metrics_api import MetricsApi
from alcove.apiserver.usage.usage_collector import UsageCollector
from alcove.apiserver.watch_hub import WatchHub
from alcove.apiserver.worker_counts import Counted
from alcove.component.tasks import BackgroundTasks
from alcove.console.files import ConsoleFiles
from alcove.http.group_counts import GroupCounts
from alcove.http.limits import LIMITS
from alcove.http.messages import HttpResponse
from alcove.http.server import HttpServer
from alcove.http.turns import ReadingTurns
from alcove.processes.apiserver_config import ApiServerConfig, ServerKeys
from alcove.processes.memory import keep_trimmed
from alcove.processes.open_files import connections_that_fit
from alcove.processes.starting import StartingServer
from alcove.processes.store_opening import open_store
from alcove.processes.worker_context import WorkerContext
from alcove.store.base import Store
from alcove.store.closures import ClosableStore
from alcove.store.compaction import Compactor
from alcove.store.encrypted import EncryptedStore
from alcove.store.remote import RemoteStore
from alcove.store.sqlite import SqliteStore

log = logging.getLogger(__name__)


class RunningApiServer(Struct, frozen=True):
    url: str
    authority: CertificateAuthority
    app: App
    lost: Callable[[], Coroutine[Any, Any, None]]
    """Raises StoreError when this server can no longer follow the store; the process must exit and be
    restarted."""


@asynccontextmanager
async def serve(
    config: ApiServerConfig, worker: WorkerContext | None = None
) -> AsyncIterator[RunningApiServer]:
    """Serves for the duration of the block: alone, or as one worker of several."""
    config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    metrics = ApiServerMetrics()
    encryption = config.load_encryption()
    keys = ServerKeys.open(config, time.time)
    async with AsyncExitStack() as stack:
        starting = None
        if worker is None:  # Beside other workers that serve, nobody has to be told to wait.
            addresses = (config.host, *config.listen)
            starting = await stack.enter_async_context(
                StartingServer(addresses, config.port, keys.serving.context)
            )
        opened = await open_store(config, metrics.committed, worker)
        store = EncryptedStore(ClosableStore(opened), encryption)
        stack.push_async_callback(store.close)
        kinds, home = registry.load(), config.admission.home
        if config.etcd:  # A cache cannot follow an etcd that nobody has written to.
            await bootstrap.create_missing(store, kinds, home, lambda _key: False, config.is_closed)
        async with _serving(config, opened, store, kinds, keys, metrics, worker, starting) as running:
            yield running


@asynccontextmanager
async def _serving(
    config: ApiServerConfig,
    opened: Store,
    store: EncryptedStore,
    kinds: KindRegistry,
    keys: ServerKeys,
    metrics: ApiServerMetrics,
    worker: WorkerContext | None,
    starting: StartingServer | None,
) -> AsyncIterator[RunningApiServer]:
    clock = time.time
    workers = worker.count if worker else 1
    counts = worker.counts_of if worker else lambda _counted: GroupCounts()
    audit = AuditLog(config.data / "audit")
    authority, ring0, serving = keys.authority, keys.ring0, keys.serving
    buffers = TenantBuffers(config.buffers, counts(Counted.BUFFERED_BYTES))

    def publish(events: Sequence[CacheEvent]) -> None:
        hub.publish(events)
        crd_removal.notice(events)
        divisions.notice(events)
        revoked.notice(events)
        plane_servers.notice(events)
        closed.notice(events)
        node_addresses.notice(events)

    cache = Cache(store, publish, buffers, workers)
    node_addresses = NodeAddresses(cache)
    plane_servers = PlaneServers(cache, authority.certificate, serving.trust_clients_of)
    flow = FlowController(
        FlowLimits().divided(workers), on_wait=metrics.flow_wait_seconds.observe, weight=weights(cache)
    )
    divisions = Divisions(cache, flow.limits)
    # After the cache: history is shed before watches.
    api_time = ApiTimeMeter()
    charge = api_time.counting(flow.charge)
    hub = WatchHub(buffers, charge, config.watches_per_tenant_max, counts(Counted.WATCHES))
    crd_removal, revoked = CrdRemoval(), RevokedConnections()
    closed = ClosedTenants(cache, hub)
    async with cache:
        home, closed_at_first = config.admission.home, config.is_closed
        await cache.reached(await bootstrap.create_missing(store, kinds, home, cache.has, closed_at_first))
        divisions.load()
        plane_servers.load()
        closed.load()
        store.report()
        reading = ReadingTurns(partial(_charge_reading, charge))
        node_authority = ring0.node_authority_pem if ring0 else b""
        agents = AgentConnector(config.pki, authority, clock, node_authority, reading)
        dialer = _dialer(config, cache, node_addresses, agents)
        webhooks = Webhooks(dialer, reading, counts(Counted.WEBHOOK_CALLS), buffers)
        front_proxy = FrontProxy(authority, cache, clock)
        signing_keys = SigningKeys.open(config.keys or config.pki)
        nodes = authority.for_nodes(clock())
        trust = ExtensionTrust(cache, front_proxy, clock, nodes, signing_keys.public_keys())
        threads = ComputeThreads(
            weight=weights(cache), charge=api_time.counting(partial(flow.charge, is_on_loop=False))
        )

        def conversion(tenant: TenantId) -> ConversionParts:
            return ConversionParts(webhooks.of(tenant), partial(threads.for_size, tenant))

        custom = CustomKinds(kinds, cache, clock, conversion)
        authorizer = Authorizer(cache)
        tokens = Tokens(signing_keys, cache, clock, foreign=plane_servers.token_key)
        static = StaticTokens.open(config.tokens, clock) if config.tokens else None
        issuers = IssuerClient(dialer, reading, threads)
        provider_parts = ProviderParts(issuers, threads, clock, FetchCounts())
        oidc = OidcAuthentication(config.authentication, cache, provider_parts)
        authenticator = Authenticator(
            cache,
            tokens,
            clock,
            static,
            ring0.check if ring0 else plane_servers.check,
            oidc.tokens,
            config.admission.home,
        )
        shared = bool(config.etcd) or worker is not None
        admission = config.admission
        chain = Chain(
            plugins(
                cache,
                custom,
                kinds,
                authorizer,
                tokens,
                authority,
                clock,
                webhooks,
                trust,
                threads,
                admission,
                shared=shared,
            )
        )
        services = ApiServerServices(
            store,
            cache,
            hub,
            kinds,
            custom,
            chain,
            clock,
            shared,
            store.unreadable,
            threads,
            config.stored_bytes_per_tenant_max,
        )
        reviews = Reviews(authorizer, authenticator, clock, threads)
        meter = LoopMeter(charge)
        seats = RequestSeats(flow, divisions, meter, cache)
        usage = UsageCollector(cache, agents)
        streams = StreamHandler(
            services,
            authorizer,
            agents,
            plane=config.admission.home,
            release=seats.release,
            counts=counts(Counted.STREAMS),
        )
        sight = SightApi(services, agents, config.admission.home, streams.counting)
        token_requests = TokenRequests(cache, tokens, clock)
        virtual = MetricsApi(services, usage), sight
        content = TenantContent(services, is_home=config.admission.home == SYSTEM)
        subresources = Subresources(services, token_requests, reviews, streams, *virtual, content)
        registrations = Registrations(cache, custom)
        extension_connections = ExtensionConnections(dialer, front_proxy, reading)
        extensions = ExtensionProxy(
            registrations, extension_connections, seats.release, counts(Counted.EXTENSION_REQUESTS)
        )
        plane_connections, activity = PlaneConnections(authority, clock, reading), UserActivity()
        plane_proxy = PlaneProxy(
            plane_servers,
            plane_connections,
            seats.release,
            seats.take,
            counts(Counted.PLANE_REQUESTS),
            activity.note_plane,
        )
        metrics.add_flow(flow, lambda: seats.rejected_in_levels)
        metrics.add_audit(audit)
        oidc.add_metrics(metrics)
        metrics.add_cache(cache.counts)
        metrics.add_watchers(lambda: hub.count)
        metrics.add_streams(lambda: streams.counting.total)
        if worker is not None:
            worker.share_metrics(metrics)
        recorder = RequestRecorder(metrics, audit, divisions.nominal_seats, activity)
        documents = ExtensionDocuments(extensions, buffers)
        discovery = Discovery(
            custom, registrations, documents, threads, local_services.group_priorities(kinds)
        )
        openapi = OpenApi(custom, threads, registrations, documents, extensions)
        routes = Routes(
            {
                "/api": discovery.answer,
                "/apis": discovery.answer,
                "/openapi/v2": openapi.everything,
                "/openapi/v3": openapi.index,
                "/metrics": recorder.metrics,
                signingkeys.OPENID_CONFIGURATION_PATH: lambda call: HttpResponse(
                    200, signing_keys.openid_configuration(tokens.issuer(call.tenant))
                ),
                signingkeys.OPENID_KEYS_PATH: lambda call: HttpResponse(
                    200, signing_keys.jwks(), b"application/jwk-set+json"
                ),
            },
            {
                "/api/": discovery.answer,
                "/apis/": discovery.answer,
                "/openapi/v3/": openapi.version,
            },
            lambda: (opened.trouble() or "") if isinstance(opened, SqliteStore | RemoteStore) else "",
        )
        parts = AppParts(
            services,
            authenticator,
            authorizer,
            flow,
            seats,
            meter,
            RequestBuffering(buffers),
            recorder,
            ResourceHandlers(services, subresources),
            routes,
            extensions,
            plane_proxy,
            closed,
            api_time,
        )
        app = App(parts)
        console_key = signing_keys.derive("console sessions", sealing.KEY_BYTES)
        ended = EndedSessions(config.data / "console-sessions", clock)
        sign_in = OidcSignIn(oidc.tenants, issuers, console_key, clock)
        gate = ConsoleGate(app.handle, ConsoleFiles(), ConsoleSessions(console_key, clock, ended), sign_in)
        await claim_missing(store, cache, ClusterIps(cache, clock, random.Random()))
        async with HttpServer(
            gate.handle,
            (config.host, *config.listen),
            worker.port if worker else config.port,
            serving.context,
            identify=partial(_identity, authenticator),
            render_error=http_error_response,
            streams_body=lambda request: "/proxy" in request.path and path_of(request.path) is not None,
            group_of=_tenant_of,
            unlimited_group=SYSTEM,
            reading=reading,
            count_bytes=lambda group, count: buffers.adjust(TenantId(group), count),
            limits=structs.replace(
                LIMITS,
                connections_max=connections_that_fit(LIMITS.connections_max),
                connections_per_group_max=config.connections_per_tenant_max,
            ),
            counts=counts(Counted.CONNECTIONS),
            is_port_shared=worker is not None,
            listeners=await starting.hand_over() if starting is not None else None,
        ) as server:
            revoked.serve(server, authenticator.is_revoked)
            # After the watches: these can be resumed, requests may have to be sent again.
            buffers.add_shedder(server.connections.shed)
            url = config.url(server.port)
            is_first = worker is None or worker.index == 0
            log.info("serving", extra={"url": url})
            try:
                async with BackgroundTasks() as tasks:
                    tasks.restart("certificate renewal", partial(_renew, serving, agents, is_first=is_first))
                    tasks.restart("history cache trimming", partial(_trim_history, store, cache))
                    tasks.restart("activity of tenants", partial(activity.run, services))
                    if config.admission.home == SYSTEM:
                        tasks.restart("API time of tenants", partial(api_time.run, services))
                    tasks.restart("authentication configuration", oidc.run)
                    tasks.restart("memory trimming", keep_trimmed)
                    if is_first:
                        tasks.restart("compaction", Compactor(store, config.history).run)
                        tasks.restart("encryption of stored objects", store.rewrite_stale)
                        tasks.restart("CRD removal", partial(crd_removal.run, services))
                        tasks.restart("extension server trust", partial(trust.run, store))
                    yield RunningApiServer(url, authority, app, cache.lost)
                    tasks.cancel()
            finally:
                await usage.close()
                await documents.close()
                extension_connections.close()
                plane_connections.close()
                oidc.close()
                issuers.close()
                webhooks.close()
                agents.close()
                await audit.close()


def _dialer(
    config: ApiServerConfig, cache: Cache, nodes: NodeAddresses, agents: AgentConnector
) -> WebhookDialer:
    direct = DirectDialer(nodes, config.webhook_networks)
    tunnels = ServiceTunnels(cache, agents, direct, config.admission.home)
    return WebhookDialer(OutboundResolver(cache), direct, tunnels)


def _charge_reading(charge: Callable[[TenantId, float], None], group: str, seconds: float) -> None:
    """Charges the time that a tenant's data took to be read. Clients that are not authenticated yet are a group of
    their address, `@` and the address, and no tenant."""
    if not group.startswith("@"):
        charge(TenantId(group), seconds)


def _identity(authenticator: Authenticator, certificate: bytes) -> Identity | ApiError:
    """The certificate's identity, or the error: a request may still authenticate with a token."""
    try:
        return authenticator.identity_from_certificate(certificate)
    except ApiError as refused:
        return refused


def _tenant_of(peer: object) -> str:
    """The tenant of a client's certificate; empty if the client has none that is valid."""
    return peer.tenant if isinstance(peer, Identity) else ""


async def _renew(serving: ServerCertificate, agents: AgentConnector, *, is_first: bool) -> None:
    """Of several workers the first issues the serving certificate, and the others load it."""
    while True:
        (serving.renew if is_first else serving.reload)()
        agents.renew()
        await asyncio.sleep(3600)


async def _trim_history(store: Store, cache: Cache) -> None:
    """Drops history from the cache that the store has compacted."""
    while True:
        await asyncio.sleep(30)
        cache.forget(await store.compacted())
