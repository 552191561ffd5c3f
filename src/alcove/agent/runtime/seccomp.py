"""The `RuntimeDefault` seccomp profile: the distribution's, without the system calls that create namespaces.

The profile is a file with conditions (architecture, capabilities), which are resolved here. The
distribution's lets unprivileged processes create user namespaces and mount inside them: that exposes much of
the kernel, which tenants that share a node must not reach.
"""

import os
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from alcove.agent.runtime.base import SpecRefused
from alcove.api.objects import Object

PROFILE = Path("/usr/share/containers/seccomp.json")
ADMIN = "CAP_SYS_ADMIN"
EPERM, ENOSYS = 1, 38
NAMESPACE_FLAGS = 0x7E020080
"""All flags of `clone` that create a namespace."""

_ADMIN_CALLS = frozenset(
    [
        *("fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree"),
        *("pivot_root", "setns", "umount", "umount2", "unshare"),
    ]
)
_NEVER_CALLS = frozenset(
    [
        "add_key",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "keyctl",
        "request_key",
        "userfaultfd",
    ]
)
"""Each has a history of container escapes and is rarely used; containers that need one run in gVisor."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def load(path: Path = PROFILE) -> Object:
    """Raises SpecRefused if there is no profile: no container runs with less confinement than configured."""
    try:
        return orjson.loads(path.read_bytes())  # type: ignore[no-any-return]
    except (OSError, orjson.JSONDecodeError) as error:
        raise SpecRefused(f"no seccomp profile for RuntimeDefault: {error}") from error


def default_profile(raw: Object, capabilities: Collection[str], machine: str = "") -> Object:
    """The profile for a container with these capabilities, in the form of the OCI runtime specification."""
    machine = machine or os.uname().machine
    architecture = _ARCHITECTURES.get(machine, machine)
    rules: list[Object] = []
    for rule in raw.get("syscalls") or ():
        if _applies(rule, architecture, capabilities):
            rules += _plain(rule, _excluded(capabilities))
    if ADMIN not in capabilities:
        rules += _clone_rules()
    return {
        "defaultAction": raw["defaultAction"],
        "defaultErrnoRet": raw.get("defaultErrnoRet", EPERM),
        "architectures": _architectures(raw, machine),
        "syscalls": rules,
    }


def load_local(directory: Path, name: str) -> Object:
    """The profile `name` of the node's own ones, for `Localhost`. Raises SpecRefused."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SpecRefused(f"invalid seccomp profile {name!r}: must be a relative path without '..'")
    try:
        raw = orjson.loads((directory / path).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise SpecRefused(f"cannot load seccomp profile {name!r}: {error}") from error
    if not isinstance(raw, dict) or "defaultAction" not in raw:
        raise SpecRefused(f"cannot load seccomp profile {name!r}: it has no defaultAction")
    return raw


def local_profile(raw: Object, capabilities: Collection[str], machine: str = "") -> Object:
    """A profile of the node as it is, with its conditions resolved."""
    machine = machine or os.uname().machine
    architecture = _ARCHITECTURES.get(machine, machine)
    applying = (rule for rule in raw.get("syscalls") or () if _applies(rule, architecture, capabilities))
    profile: Object = {
        "defaultAction": raw["defaultAction"],
        "architectures": raw.get("architectures") or _architectures(raw, machine),
        "syscalls": [plain for rule in applying for plain in _plain(rule, ())],
    }
    if raw.get("defaultErrnoRet") is not None:
        profile["defaultErrnoRet"] = raw["defaultErrnoRet"]
    return profile


def _applies(rule: Object, architecture: str, capabilities: Collection[str]) -> bool:
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    if includes.get("arches") and architecture not in includes["arches"]:
        return False
    if architecture in (excludes.get("arches") or ()):
        return False
    if not all(each in capabilities for each in includes.get("caps") or ()):
        return False
    return not any(each in capabilities for each in excludes.get("caps") or ())


def _excluded(capabilities: Collection[str]) -> frozenset[str]:
    """System calls that the default profile decides by itself."""
    return _NEVER_CALLS if ADMIN in capabilities else _NEVER_CALLS | _ADMIN_CALLS | {"clone", "clone3"}


def _plain(rule: Object, excluded: Collection[str]) -> list[Object]:
    """The rule without conditions, and without allowing the `excluded` system calls; empty if none is left."""
    allows = rule["action"] == "SCMP_ACT_ALLOW"
    names = [name for name in rule["names"] if not (allows and name in excluded)]
    if not names:
        return []
    plain: Object = {"names": names, "action": rule["action"]}
    if rule.get("errnoRet") is not None:
        plain["errnoRet"] = rule["errnoRet"]
    if rule.get("args"):
        plain["args"] = [_argument(each) for each in rule["args"]]
    return [plain]


def _argument(raw: Object) -> Object:
    argument: dict[str, Any] = {"index": raw["index"], "value": raw["value"], "op": raw["op"]}
    if raw.get("valueTwo"):
        argument["valueTwo"] = raw["valueTwo"]
    return argument


def _clone_rules() -> list[Object]:
    """Allows processes and threads, but no namespaces. The flags of `clone3` cannot be filtered, so it fails
    with ENOSYS, and libraries fall back to `clone`."""
    no_namespaces = {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    refused = sorted(_ADMIN_CALLS | _NEVER_CALLS)
    return [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespaces]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
        {"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM},
    ]


def _architectures(raw: Object, machine: str) -> list[str]:
    native = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}.get(machine)
    for entry in raw.get("archMap") or ():
        if entry.get("architecture") == native:
            return [entry["architecture"], *(entry.get("subArchitectures") or ())]
    return [native] if native else []
