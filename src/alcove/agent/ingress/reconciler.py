"""The shell around it all: what the API says becomes the table and the certificates of the server.

A node serves the tenants whose networks it has: whoever runs this tells it, by `touch`, when those or their services
change. Whose a host is, ring0's Tenant objects say (`controllers/ingress`); nothing a tenant writes is believed there.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping

from alcove.agent.ingress.certificates import IngressCertificatePair, IngressCertificates
from alcove.agent.ingress.routing_table import TenantIngresses, compiled
from alcove.agent.ingress.server import IngressServer
from alcove.agent.ingress.targets import TenantServices, targets
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.client import ListSelection
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, ObjectKey, TenantKey
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import INGRESS_CLASSES, INGRESSES, SECRETS, TENANTS
from alcove.network.ingress import ingress_spec as reading
from alcove.network.ingress.claims import holders
from alcove.network.ingress.ingress_spec import DesiredIngress

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
RENEW_SECONDS = 30.0
"""Secrets are read one by one, not watched: a new certificate is in use after this time."""
SECRETS_MAX = 2_048
UNREADABLE = "CertificateUnusable"

Note = Callable[[TenantKey, DesiredIngress, str, str], None]
"""(tenant, Ingress, reason, message): an event for the Ingress' owner."""


class _Seen:
    """The mirrors of one tenant's Ingresses."""

    def __init__(self, planes: Planes, tenant_key: TenantKey, changed: Callable[[], None]) -> None:
        self.tenant_key = tenant_key
        self._planes = planes
        self.ingresses = self._mirror(ListSelection(INGRESSES), changed)
        self.classes = self._mirror(ListSelection(INGRESS_CLASSES), changed)

    def _mirror(self, selection: ListSelection, changed: Callable[[], None]) -> Mirror:
        mirror = self._planes.mirror(selection, tenant=self.tenant_key.tenant, only=self.tenant_key.plane)
        mirror.subscribe(lambda _change: changed())
        return mirror

    def wanted(self) -> tuple[DesiredIngress, ...]:
        classes = reading.served_classes(self.classes.list(self.tenant_key.plane, self.tenant_key.tenant))
        found = self.ingresses.list(self.tenant_key.plane, self.tenant_key.tenant)
        return tuple(reading.read(each) for each in found if reading.class_of(each) in classes)

    async def close(self) -> None:
        for mirror in (self.ingresses, self.classes):
            await self._planes.drop(mirror)


class IngressReconciler:
    def __init__(
        self,
        planes: Planes,
        server: IngressServer,
        certificates: IngressCertificates,
        present: Callable[[], Mapping[TenantKey, TenantServices]],
        note: Note = lambda *_: None,
    ) -> None:
        """`present`: the tenants whose networks this node has, with their services."""
        self._planes = planes
        self._server = server
        self._certificates = certificates
        self._present = present
        self._note = note
        self._changed = asyncio.Event()
        self._seen: dict[TenantKey, _Seen] = {}
        self._pairs: dict[ObjectKey, IngressCertificatePair | None] = {}
        self._tenants = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
        self._tenants.subscribe(lambda _change: self.touch())

    def touch(self) -> None:
        """Something may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        renewed = -RENEW_SECONDS
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._follow()
                wanted = {tenant_key: seen.wanted() for tenant_key, seen in self._seen.items()}
                held = holders(self._tenants.list(HOME, SYSTEM))
                self._route(wanted, held)
                is_due = loop.time() - renewed >= RENEW_SECONDS
                await self._certify(wanted, held, renew=is_due)
                renewed = loop.time() if is_due else renewed
                await self._wait(renewed + RENEW_SECONDS - loop.time())
        finally:
            for seen in self._seen.values():
                await seen.close()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, GATHER_SECONDS)):
                await self._changed.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(GATHER_SECONDS)
        self._changed.clear()

    async def _follow(self) -> None:
        present = self._present()
        for tenant_key in [each for each in self._seen if each not in present]:
            await self._seen.pop(tenant_key).close()
        for tenant_key in present:
            if tenant_key not in self._seen:
                self._seen[tenant_key] = _Seen(self._planes, tenant_key, self.touch)

    def _route(
        self, wanted: Mapping[TenantKey, tuple[DesiredIngress, ...]], held: Mapping[str, TenantId]
    ) -> None:
        present = self._present()
        tenants = [
            TenantIngresses(tenant_key, found, targets(present[tenant_key], found))
            for tenant_key, found in wanted.items()
            if tenant_key in present
        ]
        self._server.table = compiled(tenants, held, SYSTEM)

    # Certificates

    async def _certify(
        self,
        wanted: Mapping[TenantKey, tuple[DesiredIngress, ...]],
        held: Mapping[str, TenantId],
        *,
        renew: bool,
    ) -> None:
        """The hosts' certificates, from secrets of the tenant that has the host."""
        asked: dict[str, tuple[ObjectKey, TenantKey, DesiredIngress]] = {}
        for tenant_key, found in wanted.items():
            for ingress in sorted(found, key=lambda each: each.age):
                for each in ingress.certificates:
                    key = ObjectKey(tenant_key.plane, tenant_key.tenant, ingress.namespace, each.secret)
                    for host in each.hosts or ingress.hosts:
                        if held.get(host) == tenant_key.tenant:
                            asked.setdefault(host, (key, tenant_key, ingress))
        keys = dict.fromkeys(key for key, _, _ in asked.values())
        await self._read(list(keys)[:SECRETS_MAX], renew=renew)
        pairs = {
            host: pair for host, (key, _, _) in asked.items() if (pair := self._pairs.get(key)) is not None
        }
        for host, why in self._certificates.set(pairs).items():
            _, tenant_key, ingress = asked[host]
            self._note(tenant_key, ingress, UNREADABLE, f'the certificate for "{host}" cannot be used: {why}')

    async def _read(self, keys: list[ObjectKey], *, renew: bool) -> None:
        """What cannot be read just now stays as it was."""
        self._pairs = {key: self._pairs[key] for key in keys if key in self._pairs}
        for key in keys:
            if renew or self._pairs.get(key) is None:
                try:
                    self._pairs[key] = await self._pair(key)
                except (ApiError, ClientError, TimeoutError) as error:
                    log.info("certificate not read", extra={"secret": str(key), "error": str(error)})

    async def _pair(self, key: ObjectKey) -> IngressCertificatePair | None:
        secret = await self._planes.client(key.plane).get(
            key.tenant, SECRETS, key.name, namespace=key.namespace
        )
        data = secret.get("data") or {}
        try:
            return IngressCertificatePair(
                base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"])
            )
        except (KeyError, binascii.Error):
            return None
