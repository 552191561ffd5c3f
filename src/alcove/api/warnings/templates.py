"""Warnings for pods and pod templates: names, annotations and fields that have no effect any more."""

from collections.abc import Iterable, Iterator

from alcove.api import names
from alcove.api.objects import Object, annotations, get, name
from alcove.api.warnings import nodes, paths, ports
from alcove.api.warnings.base import address, annotated, fractional, present

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_REMOVED = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_APPARMOR_OLD = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_BYTES = ("memory", "ephemeral-storage")
_LISTS = frozenset(("hostAliases", "imagePullSecrets", "dnsConfig"))
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_NO_SELECTOR = "a null labelSelector results in matching no pod"


def pod(new: Object, old: Object | None) -> list[str]:
    """Warn only on create: pods are updated mostly, and often, by controllers."""
    if old is not None:
        return []
    errors = names.dns_label(name(new))
    message = (
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(errors)}]"
    )
    return [*([message] if errors else ()), *template(new, "")]


def template(pod_template: Object, path: str) -> list[str]:
    """Check a template; `path` ends with a dot, or is empty for a pod."""
    spec, notes = pod_template.get("spec") or {}, annotations(pod_template)
    containers = [
        (f"{path}spec.{field}[{index}]", container)
        for field in _CONTAINERS
        for index, container in enumerate(spec.get(field) or ())
    ]
    messages = _placing(spec, f"{path}spec.")
    if notes:
        messages += _annotations(notes, spec, containers, path)
    messages += _volumes(spec.get("volumes") or (), f"{path}spec.volumes")
    messages += _lists(spec, f"{path}spec.")
    messages += fractional(spec.get("overhead"), _BYTES, f"{path}spec.overhead")
    for where, container in containers:
        messages += _container(container, where)
    messages += ports.warnings(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        message = "must be >= 0; negative values are invalid and will be treated as 1"
        messages.append(f"{path}spec.terminationGracePeriodSeconds: {message}")
    return messages


def _placing(spec: Object, path: str) -> list[str]:
    messages = [
        f"{path}nodeSelector[{label}]: {nodes.DEPRECATED[label]}"
        for label in spec.get("nodeSelector") or ()
        if label in nodes.DEPRECATED
    ]
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in nodes.DEPRECATED:
            messages.append(f"{where}.topologyKey: {key} is {nodes.DEPRECATED[key]}")
        if constraint.get("labelSelector") is None:
            messages.append(f"{where}.labelSelector: {_NO_SELECTOR}")
    affinity = spec.get("affinity")
    if affinity:
        messages += nodes.affinity(affinity.get("nodeAffinity") or {}, f"{path}affinity.nodeAffinity")
        for kind in ("podAffinity", "podAntiAffinity"):
            messages += _pod_affinity(affinity.get(kind) or {}, f"{path}affinity.{kind}")
    return messages


def _pod_affinity(pod_template: Object, path: str) -> Iterator[str]:
    required, preferred = (
        f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
    )
    for index, term in enumerate(pod_template.get(required) or ()):
        if term.get("labelSelector") is None:
            yield f"{path}.{required}[{index}].labelSelector: {_NO_SELECTOR}"
    for index, weighted in enumerate(pod_template.get(preferred) or ()):
        if get(weighted, "podAffinityTerm", "labelSelector") is None:
            yield f"{path}.{preferred}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def _annotations(
    notes: dict[str, str], spec: Object, containers: Iterable[tuple[str, Object]], path: str
) -> list[str]:
    """Profiles set by annotation without the field. AppArmor annotations of pods were converted before."""
    messages = annotated(_ANNOTATIONS, notes, path)
    if _SECCOMP in notes and get(spec, "securityContext", "seccompProfile") is None:
        messages.append(f"{path}metadata.annotations[{_SECCOMP}]: {_SECCOMP_REMOVED}")
    for _, container in containers:
        own, security = container.get("name", ""), container.get("securityContext") or {}
        if _SECCOMP_CONTAINER_PREFIX + own in notes and security.get("seccompProfile") is None:
            messages.append(
                f"{path}metadata.annotations[{_SECCOMP_CONTAINER_PREFIX}{own}]: {_SECCOMP_REMOVED}"
            )
        profile = notes.get(_APPARMOR + own)
        if path and profile is not None and security.get("appArmorProfile") is None:
            shared = get(spec, "securityContext", "appArmorProfile")
            if shared is None or shared != _profile(profile):
                messages.append(f"{path}metadata.annotations[{_APPARMOR}{own}]: {_APPARMOR_OLD}")
    return messages


def _profile(annotation: str) -> Object | None:
    match annotation.partition("/"):
        case ("unconfined", "", ""):
            return {"type": "Unconfined"}
        case ("runtime", "/", "default"):
            return {"type": "RuntimeDefault"}
        case ("localhost", "/", profile) if profile:
            return {"type": "Localhost", "localhostProfile": profile}
    return None


def _volumes(volumes: Iterable[Object], path: str) -> list[str]:
    messages: list[str] = []
    for index, volume in enumerate(volumes):
        messages += present(_VOLUMES, volume, f"{path}[{index}].")
        claim = get(volume, "ephemeral", "volumeClaimTemplate", "spec") if "ephemeral" in volume else None
        if claim:
            messages += claim_spec(claim, f"{path}[{index}].ephemeral.volumeClaimTemplate.spec")
    return messages + paths.warnings(volumes)


def claim_spec(spec: Object, path: str) -> list[str]:
    """Check the spec of a volume claim."""
    resources = spec.get("resources") or {}
    return [
        message
        for part in ("requests", "limits")
        for message in fractional(resources.get(part), ("storage",), f"{path}.resources.{part}")
    ]


def _lists(spec: Object, path: str) -> list[str]:
    if _LISTS.isdisjoint(spec):
        return []
    messages = _repeated(spec.get("hostAliases") or (), "ip", f"{path}hostAliases")
    secrets = spec.get("imagePullSecrets") or ()
    messages += _repeated(secrets, "name", f"{path}imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            messages.append(f'{path}imagePullSecrets[{index}].name: invalid empty name ""')
    for index, server in enumerate(get(spec, "dnsConfig", "nameservers", default=())):
        messages += address(f"{path}dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        messages += address(f"{path}hostAliases[{index}].ip", alias.get("ip", ""))
    return messages


def _repeated(items: Iterable[Object], field: str, path: str) -> list[str]:
    seen: set[str] = set()
    messages: list[str] = []
    for index, item in enumerate(items):
        value = item.get(field, "")
        if value in seen:
            messages.append(f'{path}[{index}].{field}: duplicate {field} "{value}"')
        seen.add(value)
    return messages


def _container(container: Object, path: str) -> list[str]:
    messages: list[str] = []
    resources = container.get("resources")
    if resources:
        for part in ("limits", "requests"):
            messages += fractional(resources.get(part), _BYTES, f"{path}.resources.{part}")
    variables = container.get("env") or ()
    seen: set[str] = set()
    for index, variable in enumerate(variables if len(variables) > 1 else ()):
        own = variable.get("name", "")
        if own in seen and _hides(variable, f"$({own})"):
            message = f'hides previous definition of "{own}", which may be dropped when using apply'
            messages.append(f"{path}.env[{index}]: {message}")
        seen.add(own)
    return messages


def _hides(variable: Object, reference: str) -> bool:
    """Whether the former value is lost: not if the new value contains it together with other text."""
    value = variable.get("value", "")
    return variable.get("valueFrom") is not None or value == reference or reference not in value
