"""Pods run as a service account: `default` if they name none, with its token mounted."""

import asyncio

from alcove.api import meta, objects
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import Reader

PODS = GroupResource("", "pods")
SERVICE_ACCOUNTS = GroupResource("", "serviceaccounts")
MIRROR = "kubernetes.io/config.mirror"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
TOKEN_SECONDS = 3607

WAITS_MAX = 20
WAIT_SECONDS = 0.05
"""A new namespace gets its account a moment later; a pod that comes first waits for it, this long at most."""


class ServiceAccount(Plugin):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == PODS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        assert pod is not None
        if MIRROR in objects.annotations(pod):
            _check_mirror(attributes, pod)
            return
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attributes, name)
        if _mounts(spec, account):
            mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]

    async def _account(self, attributes: Attributes, name: str) -> Object:
        for attempt in range(WAITS_MAX + 1):
            account = self._reader.get(attributes.tenant, SERVICE_ACCOUNTS, attributes.namespace, name)
            if account is not None:
                return account
            if attempt < WAITS_MAX:
                await asyncio.sleep(WAIT_SECONDS)
        told = f"error looking up service account {attributes.namespace}/{name}: serviceaccount {_quoted(name)} not found"
        raise Forbidden.of(PODS, attributes.name, told)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _check_mirror(attributes: Attributes, pod: Object) -> None:
    """A node's own pods have no account and read no secrets."""
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise Forbidden.of(PODS, attributes.name, "a mirror pod may not reference service accounts")
    if any("secret" in volume or "projected" in volume for volume in spec.get("volumes") or ()):
        raise Forbidden.of(PODS, attributes.name, "a mirror pod may not reference secrets")


def _mounts(spec: Object, account: Object) -> bool:
    for holder in (spec, account):
        asked = holder.get("automountServiceAccountToken")
        if asked is not None:
            return bool(asked)
    return True


def mount_token(spec: Object) -> None:
    """Gives every container the token, the authority's certificate and the namespace, unless it mounts
    something there itself."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bare = [each for each in containers if not _is_mounted(each)]
    if not bare:
        return
    name = next(
        (volume["name"] for volume in spec.get("volumes") or () if volume["name"].startswith(VOLUME_PREFIX)),
        "",
    )
    if not name:
        name = meta.generate_name(VOLUME_PREFIX)
        spec.setdefault("volumes", []).append(_volume(name))
    for container in bare:
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
