"""The objects of ring0 that make up a dedicated plane. Pure.

    Secret plane-T           its authority, its signing key, and ring0's authorities
    PersistentVolumeClaim    its store
    StatefulSet              its API server, one pod
    Secret plane-T.U         the kubeconfig of a user

All are owned by the Tenant: when it is gone, the garbage collector deletes them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from msgspec import Struct

from alcove import __version__
from alcove.api import objects
from alcove.api.objects import Object, get
from alcove.controllers.plane_certificates import CA_CERTIFICATE, PlaneKeys

NAMESPACE = "kube-system"
IMAGE = "alcove/alcove"
LABEL = "alcove.io/plane"
USER_LABEL = "alcove.io/plane-user"
KEYS_ANNOTATION = "alcove.io/plane-keys"
"""Of the pod: which keys its API server has."""
MOVED_ANNOTATION = "alcove.io/plane-moved"
"""Of the claim: its store was made for a tenant that moved there."""
STAMP_ANNOTATION, RENEW_ANNOTATION = "alcove.io/issued-for", "alcove.io/renew-after"
STORE_SIZE = "1Gi"
PORTS = range(16_443, 17_443)
"""Ports of dedicated API servers on the nodes."""
_USER_ID = 1_000
_REQUESTS = {"cpu": "100m", "memory": "128Mi"}
_LIMITS = {"memory": "1Gi"}
_STARTUP_TRIES = 300


class PlaneNames(Struct, frozen=True):
    tenant: str
    uid: str

    @classmethod
    def of(cls, tenant: Object) -> PlaneNames:
        return cls(objects.name(tenant), tenant["metadata"]["uid"])

    @property
    def plane(self) -> str:
        """Of the Secret with its keys, the claim and the StatefulSet."""
        return f"plane-{self.tenant}"

    def user(self, name: str) -> str:
        """Of the Secret with a user's kubeconfig. Neither name has a dot, so no other tenant's Secret is named like it."""
        return f"plane-{self.tenant}.{name}"

    @property
    def owner(self) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Tenant",
            "name": self.tenant,
            "uid": self.uid,
            "controller": True,
        }

    def metadata(self, name: str, **more: object) -> Object:
        labels, owners = {LABEL: self.tenant}, [self.owner]
        return {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": owners, **more}

    def owns(self, obj: Object) -> bool:
        """Whether this Tenant owns the object, and not an earlier one of the same name."""
        return any(each.get("uid") == self.uid for each in obj["metadata"].get("ownerReferences") or ())


def keys_secret(names: PlaneNames, keys: PlaneKeys) -> Object:
    return {"metadata": names.metadata(names.plane), "type": "Opaque", "data": encoded(keys)}


def user_secret(names: PlaneNames, user: str, kubeconfig: str, annotations: Mapping[str, str]) -> Object:
    metadata = names.metadata(names.user(user), annotations=dict(annotations))
    metadata["labels"] = {**metadata["labels"], USER_LABEL: user}
    return {"metadata": metadata, "type": "Opaque", "data": encoded({"kubeconfig": kubeconfig})}


def claim(names: PlaneNames, control_plane: Object, *, is_moved: bool = False) -> Object:
    """`is_moved`: the store begins closed, and the tenant's objects are moved there."""
    annotations = {MOVED_ANNOTATION: "true"} if is_moved else {}
    size = get(control_plane, "storage", "size", default=STORE_SIZE)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": names.metadata(names.plane, annotations=annotations), "spec": spec}


def stateful_set(
    names: PlaneNames,
    control_plane: Object,
    keys: PlaneKeys,
    port: int,
    *,
    is_stopped: bool = False,
    is_moved: bool = False,
) -> Object:
    labels = {LABEL: names.tenant}
    pod = {
        "metadata": {"labels": labels, "annotations": {KEYS_ANNOTATION: fingerprint(keys)}},
        "spec": _pod(names, control_plane, port, is_moved=is_moved),
    }
    spec = {
        "replicas": 0 if is_stopped else 1,
        "serviceName": names.plane,
        "selector": {"matchLabels": labels},
        "template": pod,
    }
    return {"metadata": names.metadata(names.plane), "spec": spec}


def version_of(control_plane: Object) -> str:
    return control_plane.get("version") or __version__


def port_of(stateful_set: Object) -> int:
    """0 if somebody has removed it."""
    for container in get(stateful_set, "spec", "template", "spec", "containers", default=()):
        for port in container.get("ports") or ():
            return int(port["containerPort"])
    return 0


def fingerprint(keys: PlaneKeys) -> str:
    whole = "\0".join(f"{name}\0{text}" for name, text in sorted(keys.items()))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def stamp(server: str, keys: PlaneKeys, store_uid: str, groups: tuple[str, ...]) -> str:
    """Of what a kubeconfig was issued for; it is issued again when this changes. In another store the tenant is another
    one, too."""
    whole = "\0".join((server, keys[CA_CERTIFICATE], store_uid, *groups))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def encoded(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(text.encode()).decode("ascii") for name, text in texts.items()}


def decoded(secret: Object) -> dict[str, str]:
    """Empty if somebody has written something else than text there."""
    try:
        return {
            name: base64.b64decode(data, validate=True).decode()
            for name, data in (secret.get("data") or {}).items()
        }
    except ValueError:
        return {}


def _pod(names: PlaneNames, control_plane: Object, port: int, *, is_moved: bool) -> Object:
    spec: Object = {
        # It has to reach the agents of all nodes, and be reached by them, by controllers and by users.
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 10,
        "securityContext": {
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "runAsNonRoot": True,
            "fsGroup": _USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(names, control_plane, port, is_moved=is_moved)],
        "volumes": [
            {"name": "store", "persistentVolumeClaim": {"claimName": names.plane}},
            {"name": "keys", "secret": {"secretName": names.plane, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
    if runtime_class := control_plane.get("runtimeClassName"):
        spec["runtimeClassName"] = runtime_class
    return spec


def _container(names: PlaneNames, control_plane: Object, port: int, *, is_moved: bool) -> Object:
    arguments = ["apiserver", "--tenant", names.tenant, "--keys", "/keys", "--data", "/store"]
    arguments += ["--host", "$(HOST_IP)", "--port", str(port)]
    if is_moved:
        arguments.append("--closed")
    for san in control_plane.get("certificateSANs") or ():
        arguments += ["--name", san]
    resources = control_plane.get("resources") or {}

    def probe(path: str, **more: int) -> Object:
        return {"httpGet": {"path": path, "port": port, "scheme": "HTTPS"}, "timeoutSeconds": 5, **more}

    return {
        "name": "apiserver",
        "image": f"{IMAGE}:{version_of(control_plane)}",
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": [
            {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "HOME", "value": "/store"},
        ],
        "ports": [{"name": "https", "containerPort": port, "hostPort": port, "protocol": "TCP"}],
        "resources": {
            "requests": resources.get("requests") or _REQUESTS,
            "limits": resources.get("limits") or _LIMITS,
        },
        "startupProbe": probe("/livez", periodSeconds=1, failureThreshold=_STARTUP_TRIES),
        "readinessProbe": probe("/readyz", periodSeconds=2, failureThreshold=2),
        "livenessProbe": probe("/livez", periodSeconds=5, failureThreshold=4),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "store", "mountPath": "/store"},
            {"name": "keys", "mountPath": "/keys", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
