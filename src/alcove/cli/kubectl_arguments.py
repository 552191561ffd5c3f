"""Separates Alcove's options from the arguments of kubectl. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from alcove.cli.errors import CliError, ExitCode

CREATE_TENANT = ("create", "tenant")
_GLOBAL_OPTIONS = frozenset(
    (
        *(
            "-n",
            "--namespace",
            "--context",
            "--cluster",
            "--user",
            "-s",
            "--server",
            "--as",
            "--as-group",
            "--as-uid",
        ),
        *(
            "--cache-dir",
            "--certificate-authority",
            "--client-certificate",
            "--client-key",
            "--token",
            "-v",
            "--v",
        ),
        *("--request-timeout", "--tls-server-name"),
    )
)
"""kubectl's options with a value that may be before its command."""


class KubectlInvocation(Struct, frozen=True):
    arguments: tuple[str, ...]
    """Arguments for kubectl."""
    tenant: str = ""
    all_tenants: bool = False
    kubeconfig: str = ""
    new_tenant: str = ""
    """Tenant to create; its manifest is passed on kubectl's standard input."""
    verb: str = ""
    """kubectl's command; empty if there is none."""
    context: str = ""
    """The context of the kubeconfig, if it is not the current one; it is also among `arguments`."""


def plan(arguments: Sequence[str]) -> KubectlInvocation:
    """Raises CliError if the options contradict each other."""
    options, rest = _split(arguments)
    before, after = _at_separator(rest)
    tenant = _single(options["--tenant"], "--tenant")
    is_all = bool(options["--all-tenants"])
    if is_all and tenant:
        raise CliError("--tenant and --all-tenants cannot be used together", ExitCode.USAGE)
    verb = _verb(before)
    if is_all and verb != "get":
        raise CliError("--all-tenants can only be used with `get`", ExitCode.USAGE)
    if verb == "cp":
        named, before = _split_copy_paths(before)
        if named and tenant and named != tenant:
            raise CliError(f"the paths are in the tenant {named}, but --tenant is {tenant}", ExitCode.USAGE)
        tenant = named or tenant
    new_tenant = ""
    if tuple(before[:2]) == CREATE_TENANT:
        new_tenant, before = _split_create_tenant(before)
    if is_all and not {"-A", "--all-namespaces"} & set(before):
        before = [*before, "--all-namespaces"]
    kubeconfig = _single(options["--kubeconfig"], "--kubeconfig")
    context = _single(values_of(before, ("--context",)), "--context")
    return KubectlInvocation((*before, *after), tenant, is_all, kubeconfig, new_tenant, verb, context)


def values_of(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """The values of an option of kubectl, which stays among the arguments; `names` may have its short form."""
    values: list[str] = []
    for index, argument in enumerate(arguments):
        name, has_value, value = argument.partition("=")
        if name in names:
            values.extend([value] if has_value else arguments[index + 1 : index + 2])
        elif not argument.startswith("--") and len(argument) > 2 and argument[:2] in names:
            values.append(argument[2:])
    return values


def with_options(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """The arguments with further options, after kubectl's command: kubectl accepts none before the name of a plugin, and those
    that are there already may have a value that belongs to them."""
    index = _verb_index(arguments)
    after = len(arguments) if index is None else index + 1
    return [*arguments[:after], *options, *arguments[after:]]


def _verb(arguments: Sequence[str]) -> str:
    index = _verb_index(arguments)
    return arguments[index] if index is not None else ""


def _verb_index(arguments: Sequence[str]) -> int | None:
    is_value = False
    for index, argument in enumerate(arguments):
        if not argument.startswith("-") and not is_value:
            return index
        is_value = argument in _GLOBAL_OPTIONS
    return None


def _split(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Alcove's options with their values, and the rest. Arguments after `--` are a command in a pod: not
    parsed."""
    options: dict[str, list[str]] = {"--tenant": [], "--kubeconfig": [], "--all-tenants": []}
    rest: list[str] = []
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        if argument == "--":
            return options, [*rest, argument, *pending]
        name, has_value, value = argument.partition("=")
        if name == "--all-tenants":
            options[name] += [] if value == "false" else ["true"]
        elif name in options:
            if not has_value and not pending:
                raise CliError(f"{name} needs a value", ExitCode.USAGE)
            options[name].append(value if has_value else pending.pop(0))
        else:
            rest.append(argument)
    return options, rest


def _at_separator(arguments: list[str]) -> tuple[list[str], list[str]]:
    index = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:index], arguments[index:]


def _single(values: list[str], option: str) -> str:
    if len(set(values)) > 1:
        raise CliError(f"{option} is set twice with different values", ExitCode.USAGE)
    return values[0] if values else ""


def _split_create_tenant(arguments: list[str]) -> tuple[str, list[str]]:
    """The name in `create tenant NAME …`, and the arguments for kubectl instead."""
    name = arguments[2] if len(arguments) > 2 else ""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        raise CliError("`create tenant` needs a name of lower-case letters, digits and '-'", ExitCode.USAGE)
    return name, ["create", "--filename=-", *arguments[3:]]


def _split_copy_paths(arguments: list[str]) -> tuple[str, list[str]]:
    """The tenant in the paths of `cp`, and the arguments with plain `NAMESPACE/POD:PATH`."""
    tenants: set[str] = set()
    plain: list[str] = []
    for argument in arguments:
        target, colon, path = argument.partition(":")
        parts = target.split("/")
        # A local path has no colon after a slash-separated triple; TENANT/NAMESPACE/POD:PATH does.
        if colon and len(parts) == 3 and all(parts) and not argument.startswith(("-", "/", ".")):
            tenants.add(parts[0])
            plain.append(f"{parts[1]}/{parts[2]}:{path}")
        else:
            plain.append(argument)
    if len(tenants) > 1:
        raise CliError(
            "`cp` copies between this machine and one pod, but the paths name two tenants", ExitCode.USAGE
        )
    return (tenants.pop() if tenants else ""), plain
