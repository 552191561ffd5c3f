"""Sets a pod's service account (`default` if it has none) and mounts its token."""

import asyncio

from alcove.api import meta, objects
from alcove.api.errors import Forbidden
from alcove.api.fields import quote
from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.api.resources import PODS, SERVICE_ACCOUNTS
from alcove.apiserver.admission import podsecrets
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import CacheReader

DEFAULT = "default"
MIRROR = "kubernetes.io/config.mirror"
ONLY_OWN_SECRETS = "kubernetes.io/enforce-mountable-secrets"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
TOKEN_SECONDS = 3607

WAITS_MAX = 20
WAIT_SECONDS = 0.05
"""A new namespace gets its account `default` from a controller; a pod that is created before waits for the
account, at most WAITS_MAX times this long."""

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))


class ServiceAccount(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        handled = ((Operation.CREATE, ""), (Operation.UPDATE, "ephemeralcontainers"))
        return resource == PODS and (operation, subresource) in handled

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        assert pod is not None
        if attributes.operation is not Operation.CREATE or MIRROR in objects.annotations(pod):
            return
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attributes, name)
        if _mounts(spec, account):
            mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [
                {"name": each.get("name", "")} for each in account["imagePullSecrets"]
            ]

    async def validate(self, attributes: Attributes) -> None:
        pod = attributes.obj
        assert pod is not None
        if attributes.operation is Operation.CREATE and MIRROR in objects.annotations(pod):
            _check_mirror(attributes, pod["spec"])
            return
        name = pod["spec"].get("serviceAccountName")
        if not name:
            message = f"no service account specified for pod {attributes.namespace}/{attributes.name}"
            raise Forbidden.of(PODS, attributes.name, message)
        account = self._find(attributes, name)
        if account is None:
            raise _unknown(attributes, name)
        if objects.annotations(account).get(ONLY_OWN_SECRETS) in _TRUE:
            is_new = attributes.operation is Operation.CREATE
            if message := podsecrets.not_of(account, pod["spec"], is_new=is_new):
                raise Forbidden.of(PODS, attributes.name, message)

    def _find(self, attributes: Attributes, name: str) -> Object | None:
        return self._reader.get(attributes.tenant, SERVICE_ACCOUNTS, attributes.namespace, name)

    async def _account(self, attributes: Attributes, name: str) -> Object:
        account = self._find(attributes, name)
        waits = WAITS_MAX if name == DEFAULT else 0
        while account is None and waits:
            waits -= 1
            await asyncio.sleep(WAIT_SECONDS)
            account = self._find(attributes, name)
        if account is None:
            raise _unknown(attributes, name)
        return account


def _unknown(attributes: Attributes, name: str) -> Forbidden:
    where = f"{attributes.namespace}/{name}"
    message = f"error looking up service account {where}: serviceaccount {quote(name)} not found"
    return Forbidden.of(PODS, attributes.name, message)


def _check_mirror(attributes: Attributes, spec: Object) -> None:
    """A mirror pod may have no service account and use no secrets."""
    message = ""
    if spec.get("serviceAccountName"):
        message = "a mirror pod may not reference service accounts"
    elif podsecrets.names(spec):
        message = "a mirror pod may not reference secrets"
    elif podsecrets.has_tokens(spec):
        message = "a mirror pod may not use ServiceAccountToken volume projections"
    if message:
        raise Forbidden.of(PODS, attributes.name, message)


def _mounts(spec: Object, account: Object) -> bool:
    for holder in (spec, account):
        automount = holder.get("automountServiceAccountToken")
        if automount is not None:
            return bool(automount)
    return True


def mount_token(spec: Object) -> None:
    """Mount the token, the CA certificate and the namespace in every container that mounts nothing at that
    path."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    unmounted = [each for each in containers if not _is_mounted(each)]
    if not unmounted:
        return
    names = (volume.get("name", "") for volume in spec.get("volumes") or ())
    name = next((each for each in names if each.startswith(VOLUME_PREFIX)), "")
    if not name:
        name = meta.generate_name(VOLUME_PREFIX)
        spec.setdefault("volumes", []).append(_volume(name))
    for container in unmounted:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
        container.setdefault("volumeMounts", []).append(mount)


def _is_mounted(container: Object) -> bool:
    return any(mount.get("mountPath") == MOUNT_PATH for mount in container.get("volumeMounts") or ())


def _volume(name: str) -> Object:
    token = {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    namespace = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}}
    return {"name": name, "projected": {"defaultMode": 0o644, "sources": [token, authority, namespace]}}
