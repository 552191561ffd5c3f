"""The etcd of a dedicated plane: one pod on the plane's volume, which its API servers share. Pure.

It has one member, so that nothing has to be known of others before it runs. It stays on its volume's node. It is not restarted
by an upgrade, since its image is the node's etcd, nor by another authority of the plane, since it has one of its own.
"""

from __future__ import annotations

from alcove.api import quantity
from alcove.api.objects import Object
from alcove.controllers.plane_certificates import ETCD_KEYS, PlaneKeys
from alcove.controllers.planes import manifests
from alcove.controllers.planes.manifests import ETCD_PKI, PlaneNames

IMAGE = "alcove/etcd:node"
PART = "etcd"
_LOG_BYTES = 256 << 20
"""Of the volume, for the write-ahead log: files of 64 MiB, of which three or four exist."""
_REQUESTS = {"cpu": "50m", "memory": "64Mi"}
_LIMITS = {"memory": "1Gi"}


def stateful_set(names: PlaneNames, size: str, keys: PlaneKeys, port: int, *, is_stopped: bool) -> Object:
    """`size` of the volume, as a quantity."""
    own = {each: keys[each] for each in ETCD_KEYS}
    annotations = {manifests.KEYS_ANNOTATION: manifests.fingerprint(own)}
    store = {"name": "store", "persistentVolumeClaim": {"claimName": names.plane}}
    pod = manifests.pod_spec(_container(size, port), [store, manifests.etcd_keys_volume(names)])
    return manifests.stateful_set(names, names.store, PART, annotations, pod, is_stopped=is_stopped)


def _container(size: str, port: int) -> Object:
    def probe(**more: int) -> Object:
        return {"tcpSocket": {"port": port}, "timeoutSeconds": 5, **more}

    mounts: list[Object] = [
        {"name": "store", "mountPath": "/store"},
        {"name": "etcd", "mountPath": ETCD_PKI, "readOnly": True},
    ]
    return manifests.container(
        "etcd",
        IMAGE,
        _arguments(size, port),
        port,
        {"requests": _REQUESTS, "limits": _LIMITS},
        mounts,
        # It listens for clients when it has read its log.
        startupProbe=probe(periodSeconds=1, failureThreshold=manifests.STARTUP_TRIES),
        readinessProbe=probe(periodSeconds=2, failureThreshold=2),
        livenessProbe=probe(periodSeconds=5, failureThreshold=4),
    ) | {"workingDir": "/store"}


def _arguments(size: str, port: int) -> list[str]:
    url = f"https://$(HOST_IP):{port}"
    flags = {
        "name": "store",
        "data-dir": "/store/etcd",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        # A socket in the working directory, because etcd insists on one for other members.
        "listen-peer-urls": "unix://peer:1",
        "initial-advertise-peer-urls": "http://peer:1",
        "initial-cluster": "store=http://peer:1",
        "client-cert-auth": "true",
        "trusted-ca-file": f"{ETCD_PKI}/ca.crt",
        "cert-file": f"{ETCD_PKI}/client.crt",
        "key-file": f"{ETCD_PKI}/client.key",
        "quota-backend-bytes": str(int(quantity.parse(size).value) - _LOG_BYTES),
        "max-wals": "2",
        "max-snapshots": "2",
    }
    return [f"--{name}={value}" for name, value in flags.items()]
