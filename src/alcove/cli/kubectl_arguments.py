"""The words of a kubectl command line, with what Alcove adds taken out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from alcove.cli.errors import CliError, ExitCode

CREATE_TENANT = ("create", "tenant")


class KubectlInvocation(Struct, frozen=True):
    arguments: tuple[str, ...]
    """What kubectl gets."""
    tenant: str = ""
    all_tenants: bool = False
    kubeconfig: str = ""
    new_tenant: str = ""
    """The tenant to create: its manifest goes to kubectl's standard input."""


def plan(words: Sequence[str]) -> KubectlInvocation:
    """Raises Failure for what cannot be meant."""
    own, rest = _split(words)
    before, after = _at_separator(rest)
    tenant = _single(own["--tenant"], "--tenant")
    is_all = bool(own["--all-tenants"])
    if is_all and tenant:
        raise CliError("--tenant and --all-tenants cannot go together", ExitCode.USAGE)
    verb = next((word for word in before if not word.startswith("-")), "")
    if is_all and verb != "get":
        raise CliError("--all-tenants goes with `get` only", ExitCode.USAGE)
    if verb == "cp":
        named, before = _copied(before)
        if named and tenant and named != tenant:
            raise CliError(f"the paths name the tenant {named}, --tenant says {tenant}", ExitCode.USAGE)
        tenant = named or tenant
    new_tenant = ""
    if tuple(before[:2]) == CREATE_TENANT:
        new_tenant, before = _created(before)
    if is_all and not {"-A", "--all-namespaces"} & set(before):
        before = [*before, "--all-namespaces"]
    kubeconfig = _single(own["--kubeconfig"], "--kubeconfig")
    return KubectlInvocation((*before, *after), tenant, is_all, kubeconfig, new_tenant)


def _split(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Our options with their values, and the rest. What follows `--` is a command in a pod: not ours."""
    own: dict[str, list[str]] = {"--tenant": [], "--kubeconfig": [], "--all-tenants": []}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return own, [*rest, word, *left]
        name, has_value, value = word.partition("=")
        if name == "--all-tenants":
            own[name] += [] if value == "false" else ["true"]
        elif name in own:
            if not has_value and not left:
                raise CliError(f"{name} needs a value", ExitCode.USAGE)
            own[name].append(value if has_value else left.pop(0))
        else:
            rest.append(word)
    return own, rest


def _at_separator(words: list[str]) -> tuple[list[str], list[str]]:
    cut = words.index("--") if "--" in words else len(words)
    return words[:cut], words[cut:]


def _single(values: list[str], option: str) -> str:
    if len(set(values)) > 1:
        raise CliError(f"{option} is given twice, with different values", ExitCode.USAGE)
    return values[0] if values else ""


def _created(words: list[str]) -> tuple[str, list[str]]:
    """The name in `create tenant NAME …`, and what kubectl gets instead."""
    name = words[2] if len(words) > 2 else ""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        raise CliError(
            "`create tenant` needs a name of lower-case letters, digits and dashes", ExitCode.USAGE
        )
    return name, ["create", "--filename=-", *words[3:]]


def _copied(words: list[str]) -> tuple[str, list[str]]:
    """The tenant that paths of `cp` name, and the words with plain `NAMESPACE/POD:PATH`."""
    tenants: set[str] = set()
    plain: list[str] = []
    for word in words:
        place, colon, path = word.partition(":")
        parts = place.split("/")
        # A local path has no colon before a slash; three parts before one are tenant, namespace and pod.
        if colon and len(parts) == 3 and all(parts) and not word.startswith(("-", "/", ".")):
            tenants.add(parts[0])
            plain.append(f"{parts[1]}/{parts[2]}:{path}")
        else:
            plain.append(word)
    if len(tenants) > 1:
        raise CliError("`cp` is between this machine and one pod; two tenants are named", ExitCode.USAGE)
    return (tenants.pop() if tenants else ""), plain
