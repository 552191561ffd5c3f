"""Which secrets a pod mentions, and whether its service account may have them. Pure."""

from collections.abc import Iterator

from alcove.api import objects
from alcove.api.objects import Object

_KINDS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


def names(spec: Object) -> set[str]:
    """Every secret that the pod mentions anywhere."""
    found = {each.get("name", "") for each in spec.get("imagePullSecrets") or ()}
    for field, _ in _KINDS:
        for container in spec.get(field) or ():
            found.update(name for _, name in _of_environment(container))
    for volume in spec.get("volumes") or ():
        found.update(_of_volume(volume))
    return found - {""}


def _of_environment(container: Object) -> Iterator[tuple[str, str]]:
    """(how it is mentioned, the secret's name)"""
    for variable in container.get("env") or ():
        reference = objects.get(variable, "valueFrom", "secretKeyRef")
        if reference is not None:
            yield f"envVar {variable.get('name', '')}", reference.get("name", "")
    for source in container.get("envFrom") or ():
        if source.get("secretRef") is not None:
            yield "envFrom", source["secretRef"].get("name", "")


def _of_volume(volume: Object) -> Iterator[str]:
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
    """What the pod mentions without its account listing it; empty if nothing. Of a pod that is not new, only
    ephemeral containers are looked at: nothing else can have come."""
    name = account["metadata"]["name"]
    own = {each.get("name", "") for each in account.get("secrets") or ()}
    if is_new:
        for volume in spec.get("volumes") or ():
            secret = (volume.get("secret") or {}).get("secretName")
            if secret is not None and secret not in own:
                return (
                    f'volume with secret.secretName="{secret}" is not allowed because service account '
                    f"{name} does not reference that secret"
                )
    for field, kind in _KINDS if is_new else _KINDS[2:]:
        for container in spec.get(field) or ():
            for mention, secret in _of_environment(container):
                if secret not in own:
                    return (
                        f"{kind} {container.get('name', '')} with {mention} referencing "
                        f'secret.secretName="{secret}" is not allowed because service account {name} does '
                        "not reference that secret"
                    )
    return _foreign_pull_secret(account, spec) if is_new else ""


def _foreign_pull_secret(account: Object, spec: Object) -> str:
    own = {each.get("name", "") for each in account.get("imagePullSecrets") or ()}
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name", "") not in own:
            return (
                f'imagePullSecrets[{index}].name="{each.get("name", "")}" is not allowed because service '
                f"account {account['metadata']['name']} does not reference that imagePullSecret"
            )
    return ""
