"""The objects that a pod references, which its node must read, or request tokens for, to run it. Pure: no
I/O.

All references are to the pod's tenant and namespace; those of a claim's volume may be to another namespace of
the tenant.
"""

from collections.abc import Iterator

from alcove.api import objects
from alcove.api.objects import Object

Reference = tuple[str, str, str]
"""(resource, namespace, name)"""

SECRETS = "secrets"
CONFIG_MAPS = "configmaps"
CLAIMS = "persistentvolumeclaims"
RESOURCE_CLAIMS = "resourceclaims"
SERVICE_ACCOUNTS = "serviceaccounts"

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which a node creates for a static pod: its node needs no further
objects."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_NODES_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def references(pod: Object) -> frozenset[Reference]:
    """All objects that the pod references."""
    namespace = objects.namespace(pod)
    return frozenset((resource, namespace, name) for resource, name in _named(pod) if name)


def _named(pod: Object) -> Iterator[tuple[str, str]]:
    spec: Object = pod.get("spec") or {}
    yield SERVICE_ACCOUNTS, spec.get("serviceAccountName") or ""
    for pull in spec.get("imagePullSecrets") or ():
        yield SECRETS, pull.get("name") or ""
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            yield from _of_environment(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, objects.name(pod))
    for claim in spec.get("resourceClaims") or ():
        yield RESOURCE_CLAIMS, claim.get("resourceClaimName") or ""
    yield from _created_resource_claims(pod.get("status") or {})


def _created_resource_claims(status: Object) -> Iterator[tuple[str, str]]:
    """Claims that were created for the pod from a template, or for its extended resources."""
    for claim in status.get("resourceClaimStatuses") or ():
        yield RESOURCE_CLAIMS, claim.get("resourceClaimName") or ""
    extended = status.get("extendedResourceClaimStatus") or {}
    yield RESOURCE_CLAIMS, extended.get("resourceClaimName") or ""


def _of_environment(container: Object) -> Iterator[tuple[str, str]]:
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield SECRETS, _name(source, "secretKeyRef")
        yield CONFIG_MAPS, _name(source, "configMapKeyRef")
    for source in container.get("envFrom") or ():
        yield SECRETS, _name(source, "secretRef")
        yield CONFIG_MAPS, _name(source, "configMapRef")


def _of_volume(volume: Object, pod_name: str) -> Iterator[tuple[str, str]]:
    for kind, source in volume.items():
        if not isinstance(source, dict):
            continue
        # All volume types use the same field names for these: secret and azureFile, rbd and iscsi, …
        yield SECRETS, source.get("secretName") or ""
        yield SECRETS, _name(source, "secretRef")
        yield SECRETS, _name(source, "nodePublishSecretRef")
        match kind:
            case "configMap":
                yield CONFIG_MAPS, source.get("name") or ""
            case "persistentVolumeClaim":
                yield CLAIMS, source.get("claimName") or ""
            case "ephemeral":
                yield CLAIMS, f"{pod_name}-{volume.get('name', '')}"
            case "projected":
                for projected in source.get("sources") or ():
                    yield SECRETS, _name(projected, "secret")
                    yield CONFIG_MAPS, _name(projected, "configMap")


def _name(holder: Object, field: str) -> str:
    return (holder.get(field) or {}).get("name") or ""


def volume_secrets(volume: Object) -> Iterator[Reference]:
    """The secrets that a node needs to mount a persistent volume."""
    spec: Object = volume.get("spec") or {}
    namespace = objects.get(spec, "claimRef", "namespace", default="")
    for kind, source in spec.items():
        if not isinstance(source, dict):
            continue
        if kind == "azureFile":
            yield SECRETS, source.get("secretNamespace") or namespace, source.get("secretName") or ""
        for field in _NODES_CSI_SECRETS if kind == "csi" else ("secretRef",):
            if named := source.get(field):
                yield SECRETS, named.get("namespace") or namespace, named.get("name") or ""


def certificate_signers(pod: Object) -> frozenset[str]:
    """The signers of the certificates in the pod's projected volumes."""
    return frozenset(
        source["podCertificate"].get("signerName") or ""
        for volume in objects.get(pod, "spec", "volumes", default=())
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("podCertificate") is not None
    )


def token_audiences(pod: Object) -> frozenset[str]:
    """The audiences of the tokens in the pod's projected volumes; "" is the API server."""
    return frozenset(
        source["serviceAccountToken"].get("audience") or ""
        for volume in objects.get(pod, "spec", "volumes", default=())
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken") is not None
    )
