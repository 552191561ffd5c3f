"""What extension servers read to trust this server: the config map `extension-apiserver-authentication` and the role
that allows to read it, in `kube-system` of each tenant. Ring0's also has the authority of nodes' certificates, and the
public keys of service account tokens, for dedicated planes.

Both are created with the tenant's first object that needs them: an APIService, or a binding of the role, which every
extension server has. Of tenants that have APIServices they are looked after: a deleted or outdated one is written
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import orjson
from cryptography import x509

from alcove.api import meta, objects
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, TenantId
from alcove.api.objects import Object
from alcove.api.resources import API_SERVICES, CONFIG_MAPS, NAMESPACES
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.aggregation.front_proxy import COMMON_NAME, FrontProxy
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.rbac.defaults import ROLE_BINDINGS, ROLES
from alcove.apiserver.rbac.roletables import API_VERSION as RBAC_VERSION
from alcove.store.base import ABSENT, RevisionMismatch, Store, StoreError, WriteOp

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
READER = "extension-apiserver-authentication-reader"
CHECK_SECONDS = 30.0
NODE_CA_FILE = "node-ca-file"
TOKEN_KEYS_FILE = "service-account-key-file"
_CA_FILE, _CLIENT_CA_FILE = "requestheader-client-ca-file", "client-ca-file"
_RENEW_SECONDS_LEFT = 90 * 86_400.0


class ExtensionTrust(Plugin):
    def __init__(
        self,
        cache: Cache,
        front_proxy: FrontProxy,
        clock: Callable[[], float],
        node_authority: CertificateAuthority,
        token_keys: str,
    ) -> None:
        """`token_keys`: the public keys of service account tokens, in PEM."""
        self._token_keys = token_keys
        self._cache = cache
        self._node_authority = node_authority
        self._front_proxy = front_proxy
        self._clock = clock
        self._checked: dict[TenantId, object] = {}
        """The config maps that were found good, by tenant."""

    # An admission plugin: written with the first object that needs it

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource in (API_SERVICES, ROLE_BINDINGS) and not subresource

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == ROLE_BINDINGS and not _binds_reader(attributes):
            return
        if self._has_namespace(attributes.tenant):
            attributes.also += self._missing(attributes.tenant)

    # A background task

    async def run(self, store: Store) -> None:
        while True:
            tenants = {SYSTEM, *self._cache.tenants(API_SERVICES)}
            self._checked = {each: entry for each, entry in self._checked.items() if each in tenants}
            for tenant in tenants:
                await self._repair(store, tenant)
                await asyncio.sleep(0)  # Few tenants have something to wait for.
            await asyncio.sleep(CHECK_SECONDS)

    async def _repair(self, store: Store, tenant: TenantId) -> None:
        if not self._has_namespace(tenant):
            return
        ops = [*self._missing(tenant), *self._outdated(tenant)]
        try:
            if ops:
                await store.write(ops)
        except RevisionMismatch:
            pass  # Another server has repaired it.
        except StoreError as error:
            log.warning("failed to write extension server trust; retrying", extra={"error": str(error)})

    # What is to be written

    def _has_namespace(self, tenant: TenantId) -> bool:
        return self._cache.entry(Key(NAMESPACES, tenant, "", NAMESPACE)) is not None

    def _missing(self, tenant: TenantId) -> Iterator[WriteOp]:
        config_map = Key(CONFIG_MAPS, tenant, NAMESPACE, NAME)
        if self._cache.entry(config_map) is None:
            data = self._data(tenant)
            yield self._created(config_map, {"apiVersion": "v1", "kind": "ConfigMap", "data": data})
        role = Key(ROLES, tenant, NAMESPACE, READER)
        if self._cache.entry(role) is None:
            yield self._created(role, _role())

    def _outdated(self, tenant: TenantId) -> Iterator[WriteOp]:
        entry = self._cache.entry(Key(CONFIG_MAPS, tenant, NAMESPACE, NAME))
        if entry is None or self._checked.get(tenant) is entry:
            return
        obj, data = entry.decode(), entry.object.get("data") or {}
        has_keys = tenant != SYSTEM or data.get(TOKEN_KEYS_FILE) == self._token_keys
        if has_keys and _is_good(data, self._authorities(tenant), self._clock()):
            self._checked[tenant] = entry
            return
        obj["data"] = {**(obj.get("data") or {}), **self._data(tenant)}
        yield WriteOp(entry.key, encode(obj), entry.revision)

    def _data(self, tenant: TenantId) -> dict[str, str]:
        data = _data(self._authorities(tenant))
        return {**data, TOKEN_KEYS_FILE: self._token_keys} if tenant == SYSTEM else data

    def _authorities(self, tenant: TenantId) -> dict[str, CertificateAuthority]:
        credentials = self._front_proxy.credentials(tenant)
        authorities = {_CLIENT_CA_FILE: credentials.client_authority, _CA_FILE: credentials.authority}
        return {**authorities, NODE_CA_FILE: self._node_authority} if tenant == SYSTEM else authorities

    def _created(self, key: Key, obj: Object) -> WriteOp:
        group = f"/apis/{RBAC_VERSION}" if key.resource.group else "/api/v1"
        path = f"{group}/tenants/{key.tenant}/namespaces/{key.namespace}/{key.resource.resource}/{key.name}"
        metadata = {
            "name": key.name,
            "namespace": key.namespace,
            "tenant": key.tenant,
            "uid": meta.new_uid(),
            "creationTimestamp": meta.format_time(self._clock()),
            "selfLink": path,
        }
        return WriteOp(key, encode({**obj, "metadata": metadata}), ABSENT)


def _binds_reader(attributes: Attributes) -> bool:
    assert attributes.obj is not None
    return attributes.namespace == NAMESPACE and objects.get(attributes.obj, "roleRef", "name") == READER


def _role() -> Object:
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [NAME],
        "verbs": ["get", "list", "watch"],
    }
    return {"apiVersion": RBAC_VERSION, "kind": "Role", "rules": [rule]}


def _data(authorities: Mapping[str, CertificateAuthority]) -> dict[str, str]:
    return {**{name: each.certificate_pem.decode() for name, each in authorities.items()}, **_HEADERS}


_HEADERS = {
    "requestheader-allowed-names": orjson.dumps([COMMON_NAME]).decode(),
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}


def _is_good(data: dict[str, str], authorities: Mapping[str, CertificateAuthority], now: float) -> bool:
    """Whether the config map has this server's authorities. Their certificates may be of another server, which has the
    same keys."""
    if any(data.get(name) != value for name, value in _HEADERS.items()):
        return False
    for name, authority in authorities.items():
        try:
            found = x509.load_pem_x509_certificate(data.get(name, "").encode())
        except ValueError:
            return False
        is_same = found.public_key() == authority.certificate.public_key()
        if not is_same or found.not_valid_after_utc.timestamp() - now < _RENEW_SECONDS_LEFT:
            return False
    return True
