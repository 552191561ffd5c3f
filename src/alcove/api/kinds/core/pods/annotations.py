"""Annotations of a pod that Kubernetes interprets, and that must agree with its fields."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from alcove.api.fields import FieldError, forbidden, invalid, quote
from alcove.api.kinds.core.paths import check_descending
from alcove.api.kinds.core.pods.affinity import check_tolerations
from alcove.api.kinds.core.pods.containers import all_containers
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors

MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL = "localhost/"
_LOCAL_LENGTH_MAX = 4095
_is_cost = re.compile(r"0|-?[1-9][0-9]{0,9}").fullmatch
_APPARMOR_NAMES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
_SECCOMP_NAMES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}


def check_pod_annotations(
    annotations: Mapping[str, str], spec: Object, path: str, errors: FieldErrors
) -> None:
    if MIRROR in annotations and not spec.get("nodeName"):
        message = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], message))
    if annotations.get(_TOLERATIONS):
        _check_tolerations(annotations[_TOLERATIONS], path, errors)
    if DELETION_COST in annotations and not _is_int32(annotations[DELETION_COST]):
        cost = annotations[DELETION_COST]
        errors.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))
    containers: set[str] | None = None
    for key, value in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            _check_seccomp(value, f"{path}.{key}", errors)
        elif key.startswith(_APPARMOR):
            if containers is None:
                containers = {container.get("name", "") for container, _ in all_containers(spec, "spec")}
            _check_apparmor(key, value, containers, path, errors)


def _is_int32(text: str) -> bool:
    return _is_cost(text) is not None and -(2**31) <= int(text) < 2**31


def _check_tolerations(text: str, path: str, errors: FieldErrors) -> None:
    try:
        tolerations = msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        errors.append(invalid(path, _TOLERATIONS, str(error)))
        return
    check_tolerations(tolerations, f"{path}.{_TOLERATIONS}", errors)


def _check_seccomp(profile: str, path: str, errors: FieldErrors) -> None:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if profile.startswith(_LOCAL):
        check_descending(profile.removeprefix(_LOCAL), path, errors)
    else:
        errors.append(invalid(path, profile, "must be a valid seccomp profile"))


def _check_apparmor(key: str, profile: str, containers: set[str], path: str, errors: FieldErrors) -> None:
    name = key.removeprefix(_APPARMOR)
    if name not in containers:
        errors.append(invalid(f"{path}[{key}]", name, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCAL):
        message = f"invalid AppArmor profile name: {quote(profile)}"
        errors.append(invalid(f"{path}[{key}]", profile, message))


def check_profiles_match(
    annotations: Mapping[str, str], spec: Object, path: str, errors: FieldErrors
) -> None:
    """On creation, an old annotation and the field that replaced it must agree."""
    if not any(key == _SECCOMP_POD or key.startswith((_SECCOMP_CONTAINER, _APPARMOR)) for key in annotations):
        return
    security = spec.get("securityContext", {})
    if "seccompProfile" in security and _SECCOMP_POD in annotations:
        where, profile = f"{path}.securityContext.seccompProfile", security["seccompProfile"]
        errors += _mismatch("seccomp", annotations[_SECCOMP_POD], profile, _SECCOMP_NAMES, where)
    for container, at in all_containers(spec, path):
        own, name = container.get("securityContext", {}), container.get("name", "")
        profile, annotation = own.get("seccompProfile"), annotations.get(_SECCOMP_CONTAINER + name)
        if profile is not None and annotation is not None:
            where = f"{at}.securityContext.seccompProfile"
            errors += _mismatch("seccomp", annotation, profile, _SECCOMP_NAMES, where)
    if spec.get("os", {}).get("name") == "windows":
        return
    for container, at in all_containers(spec, path):
        own, name = container.get("securityContext", {}), container.get("name", "")
        profile = own.get("appArmorProfile", security.get("appArmorProfile"))
        annotation = annotations.get(_APPARMOR + name)
        if profile is not None and annotation is not None:
            where = f"{at}.securityContext.appArmorProfile"
            errors += _mismatch("apparmor", annotation, profile, _APPARMOR_NAMES, where)


def _mismatch(
    description: str,
    annotation: str,
    profile: Object,
    names_by_kind: Mapping[str, tuple[str, ...]],
    path: str,
) -> list[FieldError]:
    kind = profile.get("type", "")
    if kind in names_by_kind:
        matches = annotation in names_by_kind[kind]
    elif kind == "Localhost":
        if annotation.startswith(_LOCAL) and annotation.removeprefix(_LOCAL) != profile.get(
            "localhostProfile"
        ):
            message = f"{description} profile in annotation and field must match"
            return [forbidden(f"{path}.localhostProfile", message)]
        matches = annotation.startswith(_LOCAL)
    else:
        return []
    return (
        []
        if matches
        else [forbidden(f"{path}.type", f"{description} type in annotation and field must match")]
    )


def fill_apparmor_fields(annotations: Mapping[str, str], spec: Object) -> None:
    """On creation, set the field from a container's old annotation, unless the pod's field is the same."""
    if spec.get("os", {}).get("name") == "windows":
        return
    whole = spec.get("securityContext", {}).get("appArmorProfile")
    for container, _ in all_containers(spec, "spec"):
        profile = _apparmor_field(annotations.get(_APPARMOR + container.get("name", ""), ""))
        own = container.get("securityContext", {})
        if profile is not None and profile != whole and "appArmorProfile" not in own:
            container["securityContext"] = {**own, "appArmorProfile": profile}


def _apparmor_field(annotation: str) -> Object | None:
    for kind, annotation_names in _APPARMOR_NAMES.items():
        if annotation in annotation_names:
            return {"type": kind}
    local = annotation.removeprefix(_LOCAL)
    if local == annotation or not local or local != local.strip() or len(local) > _LOCAL_LENGTH_MAX:
        return None
    return {"type": "Localhost", "localhostProfile": local}


def check_annotation_changes(
    new: Mapping[str, str], old: Mapping[str, str], path: str, errors: FieldErrors
) -> None:
    """Some annotations are immutable after the pod's creation."""
    for key in (*old, *(key for key in new if key not in old)):
        if new.get(key) == old.get(key):
            continue
        verb = "remove or update" if key in old else "add"
        if key.startswith(_APPARMOR):
            errors.append(forbidden(f"{path}[{key}]", f"may not {verb} AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"{path}[{key}]", f"may not {verb} mirror pod annotation"))
