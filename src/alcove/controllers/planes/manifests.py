"""The objects of ring0 that make up a dedicated plane. Pure.

    Secret plane-T                    its authority, its signing key, and ring0's authorities
    Secret planekey-T                 the key that Secrets in its store are encrypted with
    PersistentVolumeClaim plane-T     its store
    StatefulSet plane-T               its API server, one pod; of several ones the others are plane1-T and plane2-T
    StatefulSet planestore-T          its etcd, one pod, if the store is not in the API server (`etcd_manifests`)
    Secret plane-T.U                  the kubeconfig of a user

All are owned by the Tenant: when it is gone, the garbage collector deletes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from msgspec import Struct

from alcove import __version__
from alcove.api import objects
from alcove.api.objects import Object, get
from alcove.controllers.plane_certificates import (
    CA_CERTIFICATE,
    ETCD_CA,
    ETCD_CERTIFICATE,
    ETCD_KEY,
    ETCD_NAME,
    PlaneKeys,
)

NAMESPACE = "kube-system"
IMAGE = "alcove/alcove"
LABEL = "alcove.io/plane"
USER_LABEL = "alcove.io/plane-user"
PART_LABEL = "alcove.io/plane-part"
"""Of a StatefulSet's pod: `etcd`, or `apiserver-` and the number of the API server."""
KEYS_ANNOTATION = "alcove.io/plane-keys"
"""Of the pod: which keys its API server has."""
AUTHORITY_ANNOTATION = "alcove.io/plane-authority"
"""Of the pod: which authority has signed its API server's certificate."""
REVISION_ANNOTATION = "alcove.io/plane-revision"
"""Of the pod and its template: another one has to be replaced."""
MOVED_ANNOTATION = "alcove.io/plane-moved"
"""Of the claim: its store was made for a tenant that moved there."""
ENCRYPTED_ANNOTATION = "alcove.io/plane-encrypted"
"""Of the claim: Secrets in its store are encrypted."""
ENCRYPTION_FILE = "encryption.yaml"
STAMP_ANNOTATION, RENEW_ANNOTATION = "alcove.io/issued-for", "alcove.io/renew-after"
STORE_SIZE = "1Gi"
PORTS = range(16_443, 17_443)
"""Ports of dedicated API servers on the nodes."""
ETCD_PKI = "/etcd-pki"
_USER_ID = 1_000
_DATA_BYTES = "1Gi"
"""Of an API server whose store is elsewhere: its audit log, for example."""
_REQUESTS = {"cpu": "100m", "memory": "128Mi"}
_LIMITS = {"memory": "1Gi"}
STARTUP_TRIES = 300


class PlaneNames(Struct, frozen=True):
    tenant: str
    uid: str

    @classmethod
    def of(cls, tenant: Object) -> PlaneNames:
        return cls(objects.name(tenant), tenant["metadata"]["uid"])

    @property
    def plane(self) -> str:
        """Of the Secret with its keys and the claim."""
        return f"plane-{self.tenant}"

    @property
    def encryption(self) -> str:
        """Of the Secret with the key of its store."""
        return f"planekey-{self.tenant}"

    def server(self, number: int) -> str:
        """Of the StatefulSet of an API server. No other tenant's is named like it: the number is before the dash."""
        return f"plane{number or ''}-{self.tenant}"

    @property
    def store(self) -> str:
        """Of etcd's StatefulSet."""
        return f"planestore-{self.tenant}"

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


def encryption_secret(names: PlaneNames, configuration: str) -> Object:
    """Whoever changed it would make Secrets unreadable: so nobody can."""
    data = encoded({ENCRYPTION_FILE: configuration})
    return {"metadata": names.metadata(names.encryption), "type": "Opaque", "immutable": True, "data": data}


def claim(names: PlaneNames, control_plane: Object, *, is_moved: bool = False) -> Object:
    """`is_moved`: the store begins closed, and the tenant's objects are moved there."""
    annotations = {MOVED_ANNOTATION: "true"} if is_moved else {}
    size = get(control_plane, "storage", "size", default=STORE_SIZE)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": names.metadata(names.plane, annotations=annotations), "spec": spec}


class ServerManifest(Struct, frozen=True):
    """What an API server's StatefulSet is made of."""

    names: PlaneNames
    control_plane: Object
    keys: PlaneKeys
    port: int
    number: int = 0
    etcd: str = ""
    """Address of the store; empty if it is in the API server."""
    is_stopped: bool = False
    is_moved: bool = False
    """The store begins closed, and the tenant's objects are moved there."""

    def build(self) -> Object:
        name, part = self.names.server(self.number), server_part(self.number)
        annotations = {
            KEYS_ANNOTATION: fingerprint(self.keys),
            AUTHORITY_ANNOTATION: authority_fingerprint(self.keys[CA_CERTIFICATE]),
        }
        return stateful_set(self.names, name, part, annotations, self._pod(), is_stopped=self.is_stopped)

    def _pod(self) -> Object:
        spec = pod_spec(self._container(), self._volumes())
        spec["affinity"] = {"podAntiAffinity": _apart(self.names)}
        if runtime_class := self.control_plane.get("runtimeClassName"):
            spec["runtimeClassName"] = runtime_class
        return spec

    def _volumes(self) -> list[Object]:
        keys = {"name": "keys", "secret": {"secretName": self.names.plane, "defaultMode": 0o440}}
        encryption = {
            "name": "encryption",
            "secret": {"secretName": self.names.encryption, "defaultMode": 0o440},
        }
        tmp = {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}
        if not self.etcd:
            store = {"name": "store", "persistentVolumeClaim": {"claimName": self.names.plane}}
            return [store, keys, encryption, tmp]
        data = {"name": "store", "emptyDir": {"sizeLimit": _DATA_BYTES}}
        return [data, keys, encryption, tmp, etcd_keys_volume(self.names)]

    def _arguments(self) -> list[str]:
        arguments = ["apiserver", "--tenant", self.names.tenant, "--keys", "/keys", "--data", "/store"]
        arguments += ["--encryption-provider-config", f"/encryption/{ENCRYPTION_FILE}"]
        arguments += ["--host", "$(HOST_IP)", "--port", str(self.port)]
        if self.etcd:
            arguments += ["--etcd", self.etcd, "--etcd-pki", ETCD_PKI, "--etcd-server-name", ETCD_NAME]
        if self.is_moved:
            arguments.append("--closed")
        for san in self.control_plane.get("certificateSANs") or ():
            arguments += ["--name", san]
        return arguments

    def _container(self) -> Object:
        def probe(path: str, **more: int) -> Object:
            get = {"path": path, "port": self.port, "scheme": "HTTPS"}
            return {"httpGet": get, "timeoutSeconds": 5, **more}

        resources = self.control_plane.get("resources") or {}
        mounts: list[Object] = [
            {"name": "store", "mountPath": "/store"},
            {"name": "keys", "mountPath": "/keys", "readOnly": True},
            {"name": "encryption", "mountPath": "/encryption", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ]
        if self.etcd:
            mounts.append({"name": "etcd", "mountPath": ETCD_PKI, "readOnly": True})
        return container(
            "apiserver",
            f"{IMAGE}:{version_of(self.control_plane)}",
            self._arguments(),
            self.port,
            {
                "requests": resources.get("requests") or _REQUESTS,
                "limits": resources.get("limits") or _LIMITS,
            },
            mounts,
            startupProbe=probe("/livez", periodSeconds=1, failureThreshold=STARTUP_TRIES),
            readinessProbe=probe("/readyz", periodSeconds=2, failureThreshold=2),
            livenessProbe=probe("/livez", periodSeconds=5, failureThreshold=4),
        )


def stateful_set(
    names: PlaneNames,
    name: str,
    part: str,
    annotations: Mapping[str, str],
    pod: Object,
    *,
    is_stopped: bool,
) -> Object:
    """One pod of the plane."""
    labels = {LABEL: names.tenant, PART_LABEL: part}
    described = json.dumps([annotations, pod], sort_keys=True).encode()
    revision = {REVISION_ANNOTATION: hashlib.sha256(described).hexdigest()[:16]}
    spec = {
        "replicas": 0 if is_stopped else 1,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": {**annotations, **revision}}, "spec": pod},
    }
    return {"metadata": names.metadata(name), "spec": spec}


def pod_spec(container: Object, volumes: list[Object]) -> Object:
    return {
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
        "containers": [container],
        "volumes": volumes,
    }


def container(
    name: str,
    image: str,
    arguments: list[str],
    port: int,
    resources: Object,
    mounts: list[Object],
    **more: Object,
) -> Object:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": [
            {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "HOME", "value": "/store"},
        ],
        "ports": [{"name": "https", "containerPort": port, "hostPort": port, "protocol": "TCP"}],
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
        **more,
    }


def etcd_keys_volume(names: PlaneNames) -> Object:
    """Nothing else of the plane's Secret is in it."""
    files = {ETCD_CA: "ca.crt", ETCD_CERTIFICATE: "client.crt", ETCD_KEY: "client.key"}
    items = [{"key": key, "path": path} for key, path in files.items()]
    return {"name": "etcd", "secret": {"secretName": names.plane, "defaultMode": 0o440, "items": items}}


def _apart(names: PlaneNames) -> Object:
    """The pods of a plane on different nodes, if there are as many."""
    term = {"labelSelector": {"matchLabels": {LABEL: names.tenant}}, "topologyKey": "kubernetes.io/hostname"}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


def version_of(control_plane: Object) -> str:
    return control_plane.get("version") or __version__


def server_part(number: int) -> str:
    return f"apiserver-{number}"


def part_of(pod: Object) -> str:
    """Of a pod or a template."""
    return objects.labels(pod).get(PART_LABEL, "")


def revision_of(stateful_set: Object) -> str:
    annotations = get(stateful_set, "spec", "template", "metadata", "annotations", default=None) or {}
    return str(annotations.get(REVISION_ANNOTATION, ""))


def etcd_of(stateful_set: Object) -> str:
    """The address of the store that an API server has been told; empty if it has none."""
    for container in get(stateful_set, "spec", "template", "spec", "containers", default=()):
        arguments = container.get("args") or []
        if "--etcd" in arguments[:-1]:
            return str(arguments[arguments.index("--etcd") + 1])
    return ""


def port_of(stateful_set: Object) -> int:
    """0 if somebody has removed it."""
    return port_of_pod(get(stateful_set, "spec", "template", default=None) or {})


def port_of_pod(pod: Object) -> int:
    """Of a pod or a template."""
    for container in get(pod, "spec", "containers", default=()):
        for port in container.get("ports") or ():
            return int(port["containerPort"])
    return 0


def authority_fingerprint(certificate: str) -> str:
    return hashlib.sha256(certificate.encode()).hexdigest()[:16]


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
