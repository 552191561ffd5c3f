"""The `RuntimeDefault` seccomp profile: the distribution's, with the calls that make namespaces taken out.

The profile comes as a file with conditions (architecture, capabilities); a runtime wants a plain one. The
distribution's lets unprivileged processes make user namespaces and mount inside them: a door to much of
the kernel that strangers on one node must not have.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import orjson

from alcove.agent.runtime.base import SpecRefused
from alcove.api.objects import Object

PROFILE = Path("/usr/share/containers/seccomp.json")
ADMIN = "CAP_SYS_ADMIN"
EPERM, ENOSYS = 1, 38
NAMESPACE_FLAGS = 0x7E020080
"""Every flag of `clone` that makes a namespace."""

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
"""Each with a history of escapes, and little used; what needs one of them runs in gVisor."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def load(path: Path = PROFILE) -> Object:
    """SpecRefused where there is no profile: nothing is run with less than was asked for."""
    try:
        return orjson.loads(path.read_bytes())  # type: ignore[no-any-return]
    except (OSError, orjson.JSONDecodeError) as error:
        raise SpecRefused(f"no seccomp profile for RuntimeDefault: {error}") from error


def default_profile(raw: Object, capabilities: Collection[str], machine: str = "") -> Object:
    """The profile for a container with these capabilities, as the OCI runtime specification has it."""
    machine = machine or os.uname().machine
    architecture = _ARCHITECTURES.get(machine, machine)
    rules: list[Object] = []
    for rule in raw.get("syscalls") or ():
        if _applies(rule, architecture, capabilities):
            rules += _plain(rule, capabilities)
    if ADMIN not in capabilities:
        rules += _clone_rules()
    return {
        "defaultAction": raw["defaultAction"],
        "defaultErrnoRet": raw.get("defaultErrnoRet", EPERM),
        "architectures": _architectures(raw, machine),
        "syscalls": rules,
    }


def _applies(rule: Object, architecture: str, capabilities: Collection[str]) -> bool:
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    if includes.get("arches") and architecture not in includes["arches"]:
        return False
    if architecture in (excludes.get("arches") or ()):
        return False
    if not all(each in capabilities for each in includes.get("caps") or ()):
        return False
    return not any(each in capabilities for each in excludes.get("caps") or ())


def _plain(rule: Object, capabilities: Collection[str]) -> list[Object]:
    """A rule without conditions, and without the calls that we decide ourselves."""
    taken = set(_NEVER_CALLS)
    if ADMIN not in capabilities:
        taken |= _ADMIN_CALLS | {"clone", "clone3"}
    allows = rule["action"] == "SCMP_ACT_ALLOW"
    names = [name for name in rule["names"] if not (allows and name in taken)]
    if not names:
        return []
    plain: Object = {"names": names, "action": rule["action"]}
    if rule.get("errnoRet") is not None:
        plain["errnoRet"] = rule["errnoRet"]
    if rule.get("args"):
        plain["args"] = [_argument(each) for each in rule["args"]]
    return [plain]


def _argument(raw: Object) -> Object:
    kept: dict[str, Any] = {"index": raw["index"], "value": raw["value"], "op": raw["op"]}
    if raw.get("valueTwo"):
        kept["valueTwo"] = raw["valueTwo"]
    return kept


def _clone_rules() -> list[Object]:
    """Processes and threads, but no namespaces. The flags of `clone3` cannot be seen: libraries fall back."""
    no_namespaces = {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    refused = sorted(_ADMIN_CALLS | _NEVER_CALLS)
    return [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespaces]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
        {"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM},
    ]


def _architectures(raw: Object, machine: str) -> list[str]:
    own = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}.get(machine)
    for entry in raw.get("archMap") or ():
        if entry.get("architecture") == own:
            return [entry["architecture"], *(entry.get("subArchitectures") or ())]
    return [own] if own else []
