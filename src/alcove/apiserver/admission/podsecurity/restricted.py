"""The further checks of the restricted level. Pure: no I/O."""

from alcove.apiserver.admission.podsecurity.baseline import (
    Check,
    Finding,
    PodView,
    containers,
    is_seccomp,
    plural,
    proc_mount,
    quoted,
    setters,
)

_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_OTHER_VOLUMES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)


def unless_windows(check: Check) -> Check:
    """Skip the check for Windows pods, which may not set the field."""
    return lambda pod: None if pod.is_windows else check(pod)


def unless_own_users(check: Check) -> Check:
    """Skip the check for pods with a user namespace, in which root has no privileges on the node."""
    return lambda pod: None if pod.has_own_users else check(pod)


def privilege_escalation(pod: PodView) -> Finding | None:
    bad = [
        name for name, _, security in pod.containers if security.get("allowPrivilegeEscalation") is not False
    ]
    if not bad:
        return None
    message = f"{containers(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", message


def capabilities(pod: PodView) -> Finding | None:
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for name, _, security in pod.containers:
        configured = security.get("capabilities") or {}
        if "ALL" not in (configured.get("drop") or ()):
            keeping.append(name)
        more = {*(configured.get("add") or ())} - {"NET_BIND_SERVICE"}
        if more:
            adding.append(name)
            added |= more
    details = []
    if keeping:
        details.append(f'{containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        named = quoted(sorted(added))
        details.append(f"{containers(adding)} must not include {named} in securityContext.capabilities.add")
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(pod: PodView) -> Finding | None:
    bad: list[str] = []
    kinds: set[str] = set()
    for volume in pod.spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _VOLUMES):
            continue
        bad.append(volume.get("name", ""))
        kinds.add(next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    noun = plural("restricted volume type", len(kinds))
    message = f"{plural('volume', len(bad))} {quoted(bad)} {use} {noun} {quoted(sorted(kinds))}"
    return "restricted volume types", message


def non_root(pod: PodView) -> Finding | None:
    reason = "runAsNonRoot != true"
    of_pod = pod.security.get("runAsNonRoot")
    bad = [name for name, _, security in pod.containers if security.get("runAsNonRoot") is False]
    if violators := setters(of_pod is False, bad):
        return reason, f"{violators} must not set securityContext.runAsNonRoot=false"
    unset = [name for name, _, security in pod.containers if security.get("runAsNonRoot") is None]
    if unset and not of_pod:
        return reason, f"pod or {containers(unset)} must set securityContext.runAsNonRoot=true"
    return None


def user(pod: PodView) -> Finding | None:
    bad = [name for name, _, security in pod.containers if security.get("runAsUser") == 0]
    violators = setters(pod.security.get("runAsUser") == 0, bad)
    return ("runAsUser=0", f"{violators} must not set runAsUser=0") if violators else None


def seccomp(pod: PodView) -> Finding | None:
    """Every container must have a profile, its own or the pod's."""
    of_pod = is_seccomp(pod.security)
    bad = [(name, security) for name, _, security in pod.containers if is_seccomp(security) is False]
    if violators := setters(of_pod is False, [name for name, _ in bad]):
        holders = [security for _, security in bad] + ([pod.security] if of_pod is False else [])
        values = quoted(sorted({str(each["seccompProfile"].get("type", "")) for each in holders}))
        return "seccompProfile", f"{violators} must not set securityContext.seccompProfile.type to {values}"
    unset = [name for name, _, security in pod.containers if is_seccomp(security) is None]
    if not unset or of_pod:
        return None
    message = f'pod or {containers(unset)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return "seccompProfile", message


CHECKS: tuple[tuple[str, str, tuple[tuple[int, Check], ...]], ...] = (
    ("allowPrivilegeEscalation", "", ((8, privilege_escalation), (25, unless_windows(privilege_escalation)))),
    (
        "capabilities_restricted",
        "capabilities_baseline",
        ((22, capabilities), (25, unless_windows(capabilities))),
    ),
    ("procMount_restricted", "procMount", ((35, proc_mount),)),
    ("restrictedVolumes", "hostPathVolumes", ((0, volumes),)),
    ("runAsNonRoot", "", ((0, non_root), (35, unless_own_users(non_root)))),
    ("runAsUser", "", ((23, user), (35, unless_own_users(user)))),
    ("seccompProfile_restricted", "seccompProfile_baseline", ((19, seccomp), (25, unless_windows(seccomp)))),
)
"""The checks in the order in which violations are listed: name, the baseline check that it replaces, and
(minor version, check) pairs: each check applies from its version on."""
