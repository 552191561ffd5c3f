"""Finds the secrets that a pod references, and checks them against its service account. Pure: no I/O."""

from collections.abc import Iterator

from alcove.api import objects
from alcove.api.objects import Object

_KINDS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


def names(spec: Object) -> set[str]:
    """The names of all secrets that the pod references."""
    found = {each.get("name", "") for each in spec.get("imagePullSecrets") or ()}
    for field, _ in _KINDS:
        for container in spec.get(field) or ():
            found.update(name for _, name in _environment_secrets(container))
    for volume in spec.get("volumes") or ():
        found.update(_volume_secrets(volume))
    return found - {""}


def _environment_secrets(container: Object) -> Iterator[tuple[str, str]]:
    """Yield (kind of reference, the secret's name)."""
    for variable in container.get("env") or ():
        reference = objects.get(variable, "valueFrom", "secretKeyRef")
        if reference is not None:
            yield f"envVar {variable.get('name', '')}", reference.get("name", "")
    for source in container.get("envFrom") or ():
        if source.get("secretRef") is not None:
            yield "envFrom", source["secretRef"].get("name", "")


def _volume_secrets(volume: Object) -> Iterator[str]:
    for source in volume.values():
        if not isinstance(source, dict):
            continue
        yield source.get("secretName") or ""
        for field in ("secretRef", "nodePublishSecretRef"):
            yield (source.get(field) or {}).get("name") or ""
        for projected in source.get("sources") or ():
            yield (projected.get("secret") or {}).get("name") or ""


def has_tokens(spec: Object) -> bool:
    return any(
        source.get("serviceAccountToken") is not None
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    )


def not_of(account: Object, spec: Object, *, is_new: bool) -> str:
    """The error message for a secret that the pod references but its account does not list; empty if there is
    none.

    For an existing pod only ephemeral containers are checked: nothing else can be added.
    """
    name = account["metadata"]["name"]
    allowed = {each.get("name", "") for each in account.get("secrets") or ()}
    if is_new:
        for volume in spec.get("volumes") or ():
            secret = (volume.get("secret") or {}).get("secretName")
            if secret is not None and secret not in allowed:
                return (
                    f'volume with secret.secretName="{secret}" is not allowed because service account '
                    f"{name} does not reference that secret"
                )
    for field, kind in _KINDS if is_new else _KINDS[2:]:
        for container in spec.get(field) or ():
            for reference_kind, secret in _environment_secrets(container):
                if secret not in allowed:
                    return (
                        f"{kind} {container.get('name', '')} with {reference_kind} referencing "
                        f'secret.secretName="{secret}" is not allowed because service account {name} does '
                        "not reference that secret"
                    )
    return _foreign_pull_secret(account, spec) if is_new else ""


def _foreign_pull_secret(account: Object, spec: Object) -> str:
    allowed = {each.get("name", "") for each in account.get("imagePullSecrets") or ()}
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name", "") not in allowed:
            return (
                f'imagePullSecrets[{index}].name="{each.get("name", "")}" is not allowed because service '
                f"account {account['metadata']['name']} does not reference that imagePullSecret"
            )
    return ""
