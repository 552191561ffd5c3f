"""The StatefulSets of dedicated planes: an API server each, and etcd for planes whose store is not in the API server.

A change that replaces pods, such as another version or authority, goes from one API server to the next: the address of the
one is taken out of the Tenant's status, a moment later, when nobody uses it any more, it is replaced, and when it is
ready again the next one follows. A server that is not ready is replaced at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.control_planes import ETCD, REPLICAS_MAX, replicas_of, store_type
from alcove.api.kinds.core.plane_sleep import API_SERVER_READY
from alcove.api.objects import Object, get
from alcove.api.tenant_shards import TenantShard
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import STATEFUL_SETS, Resource
from alcove.controllers.conditions import Condition
from alcove.controllers.plane_certificates import PlaneKeys
from alcove.controllers.planes import etcd_manifests, manifests, observation
from alcove.controllers.planes.manifests import NAMESPACE, PlaneNames, ServerManifest
from alcove.controllers.planes.observation import STORE_READY

DRAIN_SECONDS = 2.0
"""Between taking an API server's address out of the status and its end: processes look once a second."""
PORT_INDEX = "port"
"""Of StatefulSets."""


class PlaneParts(Protocol):
    """How objects of ring0 are written."""

    async def apply(self, resource: Resource, obj: Object) -> None: ...

    async def delete(self, resource: Resource, obj: Object) -> None: ...


class DesiredServers(Struct, frozen=True):
    """What is to run for a tenant."""

    names: PlaneNames
    control_plane: Object
    keys: PlaneKeys
    claim: Object
    is_stopped: bool = False
    is_moved: bool = False

    @property
    def has_etcd(self) -> bool:
        return store_type(self.control_plane) == ETCD

    @property
    def replicas(self) -> int:
        return replicas_of(self.control_plane)


class ServerSets:
    def __init__(
        self,
        sets: Mirror,
        pods: Callable[[PlaneNames], Sequence[Object]],
        parts: PlaneParts,
        clock: Callable[[], float],
        shard: TenantShard | None = None,
    ) -> None:
        self._sets = sets
        self._shard = shard
        self._pods = pods
        self._parts = parts
        self._clock = clock
        self._ports: dict[str, int] = {}
        """By name: ports that were given to StatefulSets that may not be in the mirror yet."""
        self._draining: dict[str, float] = {}
        """By name: since when nobody is to use the API server, because it is to be replaced."""
        sets.add_index(PORT_INDEX, _ports_of)

    def forget(self, tenant: str) -> None:
        """Of a tenant that has no plane any more."""
        names = PlaneNames(tenant, "")
        for name in (names.store, *map(names.server, range(REPLICAS_MAX))):
            self._ports.pop(name, None)
            self._draining.pop(name, None)

    def draining(self, names: PlaneNames) -> Collection[str]:
        """The parts of the plane that are to be replaced: nobody is to use them."""
        return [
            manifests.server_part(each)
            for each in range(REPLICAS_MAX)
            if names.server(each) in self._draining
        ]

    async def ensure(self, wanted: DesiredServers) -> Condition | None:
        """Applies the StatefulSets. Returns what they wait for."""
        etcd = ""
        if wanted.has_etcd:
            if problem := await self._ensure_etcd(wanted):
                return problem
            etcd = self._etcd_address(wanted.names)
            if not etcd:
                return observation.failed(STORE_READY, "NotReady", self.store_error(wanted.names))
        found = [self._desired(wanted, etcd, number) for number in range(wanted.replicas)]
        if None in found:
            return _no_port(API_SERVER_READY)
        await self._apply_servers(wanted, [each for each in found if each is not None])
        await self._delete_others(wanted)
        return None

    def store_error(self, names: PlaneNames) -> str:
        """Why the plane's etcd is not ready; empty if it is."""
        pods = [each for each in self._pods(names) if manifests.part_of(each) == etcd_manifests.PART]
        if any(observation.is_ready(each) for each in pods):
            return ""
        return f"etcd is not ready: {observation.error_of(pods) or 'it is starting'}"

    # etcd

    async def _ensure_etcd(self, wanted: DesiredServers) -> Condition | None:
        port = self._port(wanted.names.store)
        if not port:
            return _no_port(STORE_READY)
        size = get(wanted.claim, "spec", "resources", "requests", "storage", default=manifests.STORE_SIZE)
        is_stopped = wanted.is_stopped
        etcd = etcd_manifests.stateful_set(wanted.names, size, wanted.keys, port, is_stopped=is_stopped)
        await self._parts.apply(STATEFUL_SETS, etcd)
        return None

    def _etcd_address(self, names: PlaneNames) -> str:
        """Where the plane's etcd is. While it is not ready, that is where the API servers have been told: its volume stays
        on its node. Empty if it has never run."""
        for pod in self._pods(names):
            if manifests.part_of(pod) == etcd_manifests.PART and observation.is_ready(pod):
                return f"{pod['status']['hostIP']}:{manifests.port_of_pod(pod)}"
        existing = self._sets.get(_key(names.server(0)))
        return manifests.etcd_of(existing) if existing is not None else ""

    # API servers

    def _desired(self, wanted: DesiredServers, etcd: str, number: int) -> Object | None:
        """None if there is no free port."""
        port = self._port(wanted.names.server(number))
        if not port:
            return None
        return ServerManifest(
            wanted.names,
            wanted.control_plane,
            wanted.keys,
            port,
            number,
            etcd,
            is_stopped=wanted.is_stopped,
            is_moved=wanted.is_moved,
        ).build()

    async def _apply_servers(self, wanted: DesiredServers, desired: Sequence[Object]) -> None:
        states = [self._state(wanted.names, each) for each in desired]
        turn = next_to_replace(states)
        for number, (obj, state) in enumerate(zip(desired, states, strict=True)):
            name = wanted.names.server(number)
            if state.is_settled or wanted.is_stopped or not (state.is_current or number == turn):
                self._draining.pop(name, None)
            may_replace = not state.is_ready or wanted.is_stopped or len(states) == 1
            if state.is_current or may_replace or (number == turn and self._is_drained(name)):
                # Applying what is there already writes nothing.
                await self._parts.apply(STATEFUL_SETS, obj)

    def _is_drained(self, name: str) -> bool:
        now = self._clock()
        return now - self._draining.setdefault(name, now) >= DRAIN_SECONDS

    def _state(self, names: PlaneNames, desired: Object) -> ServerState:
        existing = self._sets.get(_key(desired["metadata"]["name"]))
        wanted_revision, part = manifests.revision_of(desired), manifests.part_of(desired["spec"]["template"])
        pods = [
            each
            for each in self._pods(names)
            if manifests.part_of(each) == part and observation.is_ready(each)
        ]
        has_revision = existing is None or manifests.revision_of(existing) == wanted_revision
        is_replaced = any(
            objects.annotations(each).get(manifests.REVISION_ANNOTATION) == wanted_revision for each in pods
        )
        return ServerState(has_revision, bool(pods), has_revision and is_replaced)

    async def _delete_others(self, wanted: DesiredServers) -> None:
        for number in range(wanted.replicas, REPLICAS_MAX):
            if (extra := self._sets.get(_key(wanted.names.server(number)))) is not None:
                await self._parts.delete(STATEFUL_SETS, extra)
                self._ports.pop(wanted.names.server(number), None)

    # Ports

    def _port(self, name: str) -> int:
        """The port of a StatefulSet's pod: the one that it has, otherwise a free one; 0 if there is none."""
        existing = self._sets.get(_key(name))
        port = manifests.port_of(existing) if existing is not None else self._ports.get(name, 0)
        if not port:
            given = set(self._ports.values())
            port = next((each for each in manifests.PORTS if self._is_free(each, given)), 0)
        if port:
            self._ports[name] = port
        return port

    def _is_free(self, port: int, given: Collection[int]) -> bool:
        if self._shard is not None and port % self._shard.count != self._shard.index:
            return False  # Another shard may be giving it to a tenant at this moment.
        return port not in given and not self._sets.find_keys(PORT_INDEX, HOME, SYSTEM, str(port))


class ServerState(Struct, frozen=True):
    is_current: bool
    """Whether its StatefulSet is as desired, or does not exist yet."""
    is_ready: bool
    """Whether it has a pod that is ready, perhaps not as desired."""
    is_settled: bool
    """Whether it has a pod that is ready and as desired."""


def next_to_replace(states: Sequence[ServerState]) -> int:
    """The number of the API server that is replaced next; -1 if there is none, or not all others are ready."""
    due = (number for number, each in enumerate(states) if not each.is_current)
    is_calm = all(each.is_ready and (each.is_settled or not each.is_current) for each in states)
    return next(due, -1) if is_calm else -1


def _no_port(condition: str) -> Condition:
    message = f"All {len(manifests.PORTS)} ports of dedicated API servers are in use"
    return observation.failed(condition, "NoFreePort", message)


def _ports_of(stateful_set: Object) -> Iterable[str]:
    port = manifests.port_of(stateful_set)
    return (str(port),) if port else ()


def _key(name: str) -> ObjectKey:
    return ObjectKey(HOME, SYSTEM, NAMESPACE, name)
