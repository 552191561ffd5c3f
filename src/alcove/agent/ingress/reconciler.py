"""Controller: builds the server's routing table and certificates from API objects.

A node serves the tenants whose networks it has; the caller calls `touch` when those or their services change.
The owner of a host is the tenant that ring0's Tenant objects grant it to, whatever a tenant's objects say.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping

from alcove.agent.ingress.certificate_plan import plan
from alcove.agent.ingress.certificates import (
    CHAIN_BYTES_MAX,
    KEY_BYTES_MAX,
    IngressCertificatePair,
    IngressCertificates,
)
from alcove.agent.ingress.routing_table import HOSTS_PER_TENANT_MAX, TenantIngresses, compiled, served_hosts
from alcove.agent.ingress.server import IngressServer
from alcove.agent.ingress.targets import TenantServices, targets
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, ObjectKey, TenantKey
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import INGRESS_CLASSES, INGRESSES, SECRETS, TENANTS
from alcove.network.ingress import ingress_spec as reading
from alcove.network.ingress.domains import DomainGrants
from alcove.network.ingress.ingress_spec import DesiredIngress

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
RENEW_SECONDS = 30.0
"""The interval at which secrets are read again (they are not watched): a new certificate is used after this
time."""
CERTIFICATE_UNUSABLE, TOO_MANY_CERTIFICATES = "CertificateUnusable", "TooManyCertificates"
TOO_MANY_HOSTS = "TooManyHosts"
SURPLUS_EVENTS_MAX = 10
"""Events per tenant and reconcile for hosts that are too many."""

DesiredIngresses = Mapping[TenantKey, tuple[DesiredIngress, ...]]
ServedHosts = Mapping[TenantKey, frozenset[str]]

Note = Callable[[TenantKey, DesiredIngress, str, str], None]
"""(tenant, Ingress, reason, message): records an event of the Ingress."""


class _TenantMirrors:
    """The mirrors of one tenant's Ingresses and IngressClasses."""

    def __init__(self, planes: Planes, tenant_key: TenantKey, on_change: Callable[[], None]) -> None:
        self.tenant_key = tenant_key
        self._planes = planes
        self.ingresses = self._mirror(ListSelection(INGRESSES), on_change)
        self.classes = self._mirror(ListSelection(INGRESS_CLASSES), on_change)

    def _mirror(self, selection: ListSelection, on_change: Callable[[], None]) -> Mirror:
        mirror = self._planes.mirror(
            selection,
            tenant=self.tenant_key.tenant,
            only=self.tenant_key.plane,
            outlives_plane=True,
        )
        mirror.subscribe(lambda _change: on_change())
        return mirror

    def desired(self) -> tuple[DesiredIngress, ...]:
        classes = reading.served_classes(self.classes.list(self.tenant_key.plane, self.tenant_key.tenant))
        ingresses = self.ingresses.list(self.tenant_key.plane, self.tenant_key.tenant)
        return tuple(reading.read(each) for each in ingresses if reading.class_of(each) in classes)

    def close(self) -> None:
        for mirror in (self.ingresses, self.classes):
            self._planes.drop(mirror)


class IngressReconciler:
    def __init__(
        self,
        planes: Planes,
        server: IngressServer,
        certificates: IngressCertificates,
        grants: DomainGrants,
        present: Callable[[], Mapping[TenantKey, TenantServices]],
        note: Note = lambda *_: None,
    ) -> None:
        """`grants` is filled from ring0's Tenant objects. `present` returns the tenants whose networks this node has, with their services."""
        self._planes = planes
        self._server = server
        self._certificates = certificates
        self._grants = grants
        self._present = present
        self._record_event = note
        self._changed = asyncio.Event()
        self._mirrors: dict[TenantKey, _TenantMirrors] = {}
        self._pairs: dict[ObjectKey, IngressCertificatePair | None] = {}
        self._tenants = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
        self._tenants.subscribe(self._on_tenant)

    def _on_tenant(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.DELETED:
            affected = self._grants.remove(TenantId(change.key.name))
        else:
            affected = self._grants.put(change.obj)
        if affected:
            self.touch()

    def touch(self) -> None:
        """Triggers a reconcile."""
        self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        renewed_at = -RENEW_SECONDS
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._update_mirrors()
                desired = {tenant_key: mirrors.desired() for tenant_key, mirrors in self._mirrors.items()}
                self._update_routes(desired)
                is_due = loop.time() - renewed_at >= RENEW_SECONDS
                await self._update_certificates(desired, self._served(desired), renew=is_due)
                renewed_at = loop.time() if is_due else renewed_at
                await self._wait(renewed_at + RENEW_SECONDS - loop.time())
        finally:
            for mirrors in self._mirrors.values():
                mirrors.close()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, GATHER_SECONDS)):
                await self._changed.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(GATHER_SECONDS)
        self._changed.clear()

    def _update_mirrors(self) -> None:
        present = self._present()
        for tenant_key in [each for each in self._mirrors if each not in present]:
            self._mirrors.pop(tenant_key).close()
        for tenant_key in present:
            if tenant_key not in self._mirrors:
                self._mirrors[tenant_key] = _TenantMirrors(self._planes, tenant_key, self.touch)

    def _update_routes(self, desired: DesiredIngresses) -> None:
        present = self._present()
        tenants = [
            TenantIngresses(tenant_key, ingresses, targets(present[tenant_key], ingresses))
            for tenant_key, ingresses in desired.items()
            if tenant_key in present
        ]
        self._server.table = compiled(tenants, self._grants)

    def _served(self, desired: DesiredIngresses) -> ServedHosts:
        """The hosts of each tenant that are served; records events for those that are too many."""
        served: dict[TenantKey, frozenset[str]] = {}
        for tenant_key, ingresses in desired.items():
            served[tenant_key], surplus = served_hosts(tenant_key.tenant, ingresses, self._grants)
            for ingress, host in surplus[:SURPLUS_EVENTS_MAX]:
                message = (
                    f'host "{host}" is not served: the tenant has more than {HOSTS_PER_TENANT_MAX} hosts'
                )
                self._record_event(tenant_key, ingress, TOO_MANY_HOSTS, message)
        return served

    # Certificates

    async def _update_certificates(
        self, desired: DesiredIngresses, served: ServedHosts, *, renew: bool
    ) -> None:
        """Updates the hosts' certificates, from secrets of the tenant that owns the host."""
        planned = plan(desired, served)
        for (_, host), request in planned.left_out.items():
            message = f'the certificate for host "{host}" is not used: the tenant has too many on this node'
            self._record_event(request.tenant_key, request.ingress, TOO_MANY_CERTIFICATES, message)
        await self._read_secrets(planned.secrets, renew=renew)
        pairs = {
            host: pair
            for host, request in planned.by_host.items()
            if (pair := self._pairs.get(request.secret)) is not None
        }
        faults = await asyncio.to_thread(self._certificates.set, pairs)
        for (tenant, host), fault in faults.items():
            request = planned.by_host[tenant, host]
            message = f'invalid certificate for host "{host}": {fault}'
            self._record_event(request.tenant_key, request.ingress, CERTIFICATE_UNUSABLE, message)

    async def _read_secrets(self, keys: list[ObjectKey], *, renew: bool) -> None:
        """Reads the secrets. A secret that cannot be read keeps its previous state."""
        self._pairs = {key: self._pairs[key] for key in keys if key in self._pairs}
        for key in keys:
            if renew or self._pairs.get(key) is None:
                try:
                    self._pairs[key] = await self._read_pair(key)
                except (ApiError, ClientError, TimeoutError) as error:
                    log.info(
                        "failed to read certificate secret; retrying",
                        extra={"secret": str(key), "error": str(error)},
                    )

    async def _read_pair(self, key: ObjectKey) -> IngressCertificatePair | None:
        secret = await self._planes.tenant_client(key.tenant).get(
            key.tenant, SECRETS, key.name, namespace=key.namespace
        )
        data = secret.get("data") or {}
        try:
            # Not more than what `context_of` needs to refuse it.
            return IngressCertificatePair(
                base64.b64decode(data["tls.crt"])[: CHAIN_BYTES_MAX + 1],
                base64.b64decode(data["tls.key"])[: KEY_BYTES_MAX + 1],
            )
        except (KeyError, binascii.Error):
            return None
