"""The plane controller: converges what ring0 runs for each dedicated tenant with what its Tenant says.

The steps of `reconcile` are a list, `_STEPS`: keys, claim, its encryption, API servers; then status and users. Each creates or repairs its
objects (`manifests`, `server_sets`), so whatever is deleted or changed comes back. A step that cannot be done says why in the condition
that it is for. The pod restarts by its own probes. Everything is owned by the Tenant, and deleted with it by the garbage
collector: the store's volume and the keys too.

The API server of a tenant that is asleep is stopped once the tenant's pods have ended, and started when somebody asks for it
(`plane_sleep`). The status says so before it is stopped: from then on requests wait for it.

A tenant whose mode has changed is moved once the API server is ready (`plane_moves`). When the home plane serves it again, the
API server and its volume are deleted; the keys stay, since certificates and tokens that they have signed stay valid.

Controllers, scheduler and agents join the plane by `status.endpoint` and the authority in
`status.controlPlane`, which are set when the API server is ready for the first time. They stay while it restarts: to
leave means to stop the tenant's pods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from alcove.api import meta, objects
from alcove.api.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import (
    ETCD,
    MOVING,
    is_dedicated,
    is_moving,
    needs_plane,
    store_type,
)
from alcove.api.kinds.core.plane_sleep import (
    API_SERVER_READY,
    ASLEEP,
    WAKING,
    idle_at,
    is_stopped,
    must_run,
    stop_reason,
)
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    TENANTS,
    Resource,
)
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, ServerRefusal
from alcove.controllers.plane_certificates import (
    NODE_CA,
    OWN_KEYS,
    RING0_CA,
    RING0_TOKEN_KEYS,
    PlaneCertificates,
    PlaneUser,
)
from alcove.controllers.planes import manifests, observation
from alcove.controllers.planes.manifests import LABEL, NAMESPACE, PlaneNames
from alcove.controllers.planes.observation import CERTIFICATES_READY, STORE_READY, RunningServer
from alcove.controllers.planes.plane_moves import PlaneMoves
from alcove.controllers.planes.server_sets import DesiredServers, ServerSets
from alcove.controllers.sleep.remaining import SleepersPods
from alcove.controllers.tenants.controller import tenant_key

MANAGER = "alcove-planes"
PENDING_SECONDS = 1.0
"""How often to look at a plane that is not ready or not joined: joining is no change of an object."""
CHECK_SECONDS = 600.0
"""How often to look whether certificates are due."""
TRUST_MAP = "extension-apiserver-authentication"
NODE_CA_FILE = "node-ca-file"
"""Where ring0's API server publishes the authority of nodes' certificates."""
TOKEN_KEYS_FILE = "service-account-key-file"
"""Where it publishes the public keys of service account tokens."""
ADMIN = "admin"


_PLANE = "plane"
"""An index by the tenant."""


class _Plane(Struct):
    """What the steps of one reconciliation have found so far."""

    tenant: Object
    names: PlaneNames
    certificates: PlaneCertificates
    keys: dict[str, str] = {}
    url: str = ""
    must_run: bool = True

    @property
    def is_stopped(self) -> bool:
        """Whether the status has said so, and it need not run."""
        return not self.must_run and stop_reason(self.tenant) == ASLEEP

    @property
    def has_etcd(self) -> bool:
        return store_type(self.spec) == ETCD

    @property
    def spec(self) -> Object:
        return get(self.tenant, "spec", "controlPlane", default={})  # type: ignore[no-any-return]


class PlaneController(Controller):
    name = "plane"
    resource = TENANTS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tenants = self.mirror(TENANTS)
        self._secrets = self._ring0_mirror(SECRETS)
        self._claims = self._ring0_mirror(PERSISTENT_VOLUME_CLAIMS)
        self._sets = self._ring0_mirror(STATEFUL_SETS)
        self._pods = self._ring0_mirror(PODS)
        self._trust = self.mirror(CONFIG_MAPS, tenant=SYSTEM, fields=f"metadata.name={TRUST_MAP}", only=HOME)
        self._sleepers_pods = SleepersPods(self)
        self._moves = PlaneMoves(
            lambda: self._client,
            context.options.connect_plane,
            context.options.plane_certificates,
            self.clock,
        )
        self._servers = ServerSets(
            self._sets,
            lambda names: self._parts(self._pods, names),
            self,
            self.clock,
            context.planes.shard,
        )
        self.on(self._tenants, _of_tenant)
        for mirror in (self._secrets, self._claims, self._sets, self._pods):
            self.on(mirror, _of_part)
        self.on(self._trust, lambda _change: self._dedicated())

    def _ring0_mirror(self, resource: Resource) -> Mirror:
        return self.mirror(resource, {_PLANE: _planes}, tenant=SYSTEM, labels=LABEL, only=HOME)

    def _dedicated(self) -> Iterator[ObjectKey]:
        for tenant in self._tenants.list(HOME, SYSTEM):
            if needs_plane(tenant):
                yield tenant_key(TenantId(objects.name(tenant)))

    async def reconcile(self, key: ObjectKey) -> Result:
        tenant = self._tenants.get(key)
        certificates = self.context.options.plane_certificates
        if tenant is None or certificates is None:
            self._servers.forget(key.name)
            return DONE
        plane = _Plane(tenant, PlaneNames.of(tenant), certificates)
        if not needs_plane(tenant):
            self._servers.forget(key.name)
            return await self._finish_at_home(plane) if conditions.is_true(tenant, MOVING) else DONE
        has_pods = self._sleepers_pods.remain(TenantId(key.name))
        is_in_move = is_moving(tenant) or conditions.is_true(tenant, MOVING)
        plane.must_run = is_in_move or must_run(tenant, self.clock(), has_pods=has_pods)
        if await self._clear_earlier(plane):
            return Result(after_seconds=PENDING_SECONDS)
        for condition, step in _STEPS:
            try:
                problem = await step(self, plane)
            except (BadRequest, Forbidden, Invalid, NotFound) as error:
                await self._report(key, plane, observation.failed(condition, error.reason, error.message))
                raise ServerRefusal(error.message) from error
            if problem is not None:
                await self._report(key, plane, problem)
                return Result(after_seconds=PENDING_SECONDS)
        if is_moving(tenant):
            servers, why_not = self._running(plane)
            return await self._moves.move(tenant, servers, plane.keys, why_not)
        is_settled = await self._update_status(key, plane)
        await self._ensure_users(plane)
        if conditions.is_true(tenant, MOVING):
            servers, _ = self._running(plane)
            return await self._moves.finish_on_plane(tenant, servers, plane.keys, has_joined=is_settled)
        return Result(after_seconds=self._seconds_until_change(plane, is_settled=is_settled))

    async def _finish_at_home(self, plane: _Plane) -> Result:
        await self._moves.open_home(plane.tenant)
        remaining = False
        for resource, mirror in self._mirrors():
            for obj in self._parts(mirror, plane.names):
                if resource != SECRETS or manifests.USER_LABEL in objects.labels(obj):
                    remaining = True
                    await self.delete(resource, obj)
        if remaining:
            return Result(after_seconds=PENDING_SECONDS)
        await self._moves.finish_at_home(plane.tenant)
        return DONE

    def _seconds_until_change(self, plane: _Plane, *, is_settled: bool) -> float:
        if not plane.must_run:
            return CHECK_SECONDS
        if not is_settled:
            return PENDING_SECONDS
        if not is_asleep(plane.tenant):
            return CHECK_SECONDS
        # It is stopped when nobody has asked for it for a while, and no pods are left.
        return max(idle_at(plane.tenant) - self.clock(), PENDING_SECONDS)

    # The steps

    async def _clear_earlier(self, plane: _Plane) -> bool:
        """Deletes what an earlier tenant of the same name has left. Returns whether there is any."""
        found = False
        for resource, mirror in self._mirrors():
            for obj in self._parts(mirror, plane.names):
                if not plane.names.owns(obj):
                    found = True
                    await self.delete(resource, obj)
        return found

    async def _ensure_keys(self, plane: _Plane) -> Condition | None:
        """Creates the plane's authority and keys, and keeps ring0's authorities beside them."""
        trust = self._trust.get(ObjectKey(HOME, SYSTEM, NAMESPACE, TRUST_MAP)) or {}
        nodes = get(trust, "data", NODE_CA_FILE, default="")
        if not nodes:
            # Ring0's API server publishes it soon after its start.
            message = "Ring0's API server has not published the authority of nodes yet"
            return observation.failed(CERTIFICATES_READY, "Waiting", message)
        ring0 = {RING0_CA: self.context.authorities[HOME], NODE_CA: nodes}
        if self._is_moved(plane):
            ring0[RING0_TOKEN_KEYS] = get(trust, "data", TOKEN_KEYS_FILE, default="")
        existing = self._secrets.get(_part(plane.names.plane))
        held = manifests.decoded(existing) if existing is not None else {}
        own = {name: held[name] for name in OWN_KEYS if name in held}
        own = plane.certificates.own_keys(TenantId(plane.names.tenant), own, plane.has_etcd)
        plane.keys = {**own, **ring0}
        if held != plane.keys:
            await self.apply(SECRETS, manifests.keys_secret(plane.names, plane.keys))
        return None

    async def _ensure_claim(self, plane: _Plane) -> Condition | None:
        existing = self._claims.get(_part(plane.names.plane))
        if existing is None:
            claim = manifests.claim(plane.names, plane.spec, is_moved=self._is_moved(plane))
            await self.apply(PERSISTENT_VOLUME_CLAIMS, claim)
        elif "deletionTimestamp" in existing["metadata"] and is_moving(plane.tenant):
            return observation.failed(
                STORE_READY, "Deleting", "The volume of an earlier store is being deleted"
            )
        return None

    async def _ensure_encryption(self, plane: _Plane) -> Condition | None:
        """Makes the key of a new store. It cannot be made again."""
        names, claim = plane.names, self._claims.get(_part(plane.names.plane))
        is_encrypted = claim is not None and manifests.ENCRYPTED_ANNOTATION in objects.annotations(claim)
        if self._secrets.get(_part(names.encryption)) is not None:
            if claim is not None and not is_encrypted:
                mark = {"metadata": {"annotations": {manifests.ENCRYPTED_ANNOTATION: "true"}}}
                await self._client.patch(
                    SYSTEM, PERSISTENT_VOLUME_CLAIMS, names.plane, mark, namespace=NAMESPACE
                )
            return None
        if is_encrypted:
            message = (
                f"Secret {names.encryption} is missing, with the key of the store; copy it back. If it is lost, "
                f"delete the annotation {manifests.ENCRYPTED_ANNOTATION} of claim {names.plane}; the tenant's Secrets "
                "then cannot be read"
            )
            return observation.failed(STORE_READY, "EncryptionKeyMissing", message)
        secret = manifests.encryption_secret(names, plane.certificates.encryption())
        try:
            await self._client.create(SYSTEM, SECRETS, secret)
        except AlreadyExists:
            pass  # It is not in the mirror yet.
        return None

    def _is_moved(self, plane: _Plane) -> bool:
        """Whether the plane's store is, or will be, made for a tenant that moves there."""
        claim = self._claims.get(_part(plane.names.plane))
        if claim is None:
            return not is_dedicated(plane.tenant)
        return manifests.MOVED_ANNOTATION in objects.annotations(claim)

    async def _ensure_servers(self, plane: _Plane) -> Condition | None:
        wanted = DesiredServers(
            plane.names,
            plane.spec,
            plane.keys,
            self._claims.get(_part(plane.names.plane)) or {},
            is_stopped=plane.is_stopped,
            is_moved=self._is_moved(plane),
        )
        return await self._servers.ensure(wanted)

    async def _ensure_users(self, plane: _Plane) -> None:
        """Issues the kubeconfigs of the tenant's users, once the server has been ready and so has made the tenant:
        certificates that are older than their tenant are not valid."""
        name, claim = plane.names.tenant, self._claims.get(_part(plane.names.plane))
        if not plane.url or claim is None:
            return
        store = claim["metadata"]["uid"]
        users = {
            each["name"]: PlaneUser(TenantId(name), each["name"], tuple(each.get("groups") or ()))
            for each in plane.spec.get("users") or ({"name": ADMIN},)
        }
        for secret in self._parts(self._secrets, plane.names):
            label = objects.labels(secret).get(manifests.USER_LABEL)
            if label is not None and label not in users:
                await self._client.delete(SYSTEM, SECRETS, objects.name(secret), namespace=NAMESPACE)
        for user in users.values():
            stamp = manifests.stamp(plane.url, plane.keys, store, user.groups)
            if self._is_due(self._secrets.get(_part(plane.names.user(user.name))), stamp):
                issued = plane.certificates.kubeconfig(plane.keys, plane.url, user)
                annotations = {
                    manifests.STAMP_ANNOTATION: stamp,
                    manifests.RENEW_ANNOTATION: meta.format_time(issued.renew_at),
                }
                await self.apply(
                    SECRETS, manifests.user_secret(plane.names, user.name, issued.text, annotations)
                )

    def _is_due(self, secret: Object | None, stamp: str) -> bool:
        if secret is None or not manifests.decoded(secret).get("kubeconfig"):
            return True
        annotations = objects.annotations(secret)
        if annotations.get(manifests.STAMP_ANNOTATION) != stamp:
            return True
        try:
            return meta.parse_time(annotations.get(manifests.RENEW_ANNOTATION, "")) <= self.clock()
        except ValueError:
            return True

    async def _report(self, key: ObjectKey, plane: _Plane, problem: Condition) -> None:
        """Says in the status why a step could not be done."""
        status = plane.tenant.setdefault("status", {})
        before = {**status}
        status["conditions"] = conditions.updated(status.get("conditions") or [], [problem], self.clock())
        status["controlPlane"] = {**(status.get("controlPlane") or {}), "lastError": problem.message}
        if status != before:
            await self._client.update(SYSTEM, TENANTS, plane.tenant, subresource="status")

    async def _update_status(self, key: ObjectKey, plane: _Plane) -> bool:
        """Returns whether a server is ready, none is being replaced, and the controllers have joined the plane."""
        servers, error = self._running(plane)
        has_joined = PlaneId(key.name) in self.context.planes.ids()
        reason = ASLEEP if not plane.must_run else WAKING if is_stopped(plane.tenant) else ""
        desired = observation.conditions_of(
            self._claims.get(_part(plane.names.plane)),
            servers[0] if servers else None,
            error,
            has_joined=has_joined,
            stop_reason=reason,
            store_error=self._servers.store_error(plane.names) if plane.has_etcd and not reason else "",
        )
        status = plane.tenant.setdefault("status", {})
        before = {**status}
        status["conditions"] = conditions.updated(status.get("conditions") or [], desired, self.clock())
        observed = {**(status.get("controlPlane") or {}), "lastError": error}
        if servers:
            status["endpoint"] = observation.endpoint(servers, status.get("endpoint", ""))
            observed |= observation.observed_servers(servers, plane.spec)
            observed |= self._moves.credentials(plane.keys)
        status["controlPlane"] = {name: value for name, value in observed.items() if value}
        if status != before:
            await self._client.update(SYSTEM, TENANTS, plane.tenant, subresource="status")
        plane.url = status.get("endpoint", "")
        return bool(servers) and has_joined and not self._servers.draining(plane.names)

    # Helpers

    def _running(self, plane: _Plane) -> tuple[list[RunningServer], str]:
        """The API servers that are ready; if there is none, why, if that is known."""
        pods = self._parts(self._pods, plane.names)
        servers = observation.running_servers(pods, plane.keys, self._servers.draining(plane.names))
        return servers, "" if servers or not plane.must_run else observation.error_of(pods)

    def _mirrors(self) -> tuple[tuple[Resource, Mirror], ...]:
        return (
            (SECRETS, self._secrets),
            (STATEFUL_SETS, self._sets),
            (PERSISTENT_VOLUME_CLAIMS, self._claims),
        )

    async def delete(self, resource: Resource, obj: Object) -> None:
        if "deletionTimestamp" not in obj["metadata"]:
            uid = obj["metadata"]["uid"]
            await self._client.delete(SYSTEM, resource, objects.name(obj), namespace=NAMESPACE, uid=uid)

    @property
    def _client(self) -> Client:
        return self.context.planes.client(HOME)

    async def apply(self, resource: Resource, obj: Object) -> None:
        await self._client.apply(SYSTEM, resource, obj, manager=MANAGER, force=True)

    def _parts(self, mirror: Mirror, names: PlaneNames) -> Sequence[Object]:
        return mirror.find(_PLANE, HOME, SYSTEM, names.tenant)


_Step = Callable[[PlaneController, _Plane], Awaitable[Condition | None]]
"""Returns what the step waits for; None if it is done."""
_STEPS: tuple[tuple[str, _Step], ...] = (
    (CERTIFICATES_READY, PlaneController._ensure_keys),
    (STORE_READY, PlaneController._ensure_claim),
    (STORE_READY, PlaneController._ensure_encryption),
    (API_SERVER_READY, PlaneController._ensure_servers),
)
"""In order, each with the condition that says whether it could be done."""


def _planes(obj: Object) -> Iterable[str]:
    return (objects.labels(obj).get(LABEL, ""),)


def _part(name: str) -> ObjectKey:
    return ObjectKey(HOME, SYSTEM, NAMESPACE, name)


def _of_tenant(change: ObjectChange) -> Iterable[ObjectKey]:
    """Of tenants that there are, those that have a plane, or are coming from it."""
    tenant = change.obj
    is_at_home = not needs_plane(tenant) and not conditions.is_true(tenant, MOVING)
    is_new = change.kind is ChangeType.ADDED and change.key.plane == HOME
    return () if is_new and is_at_home else (tenant_key(TenantId(change.key.name)),)


def _of_part(change: ObjectChange) -> Iterable[ObjectKey]:
    tenant = objects.labels(change.obj).get(LABEL)
    return (tenant_key(TenantId(tenant)),) if tenant else ()
