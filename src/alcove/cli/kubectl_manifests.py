"""The tenants that manifests name: `metadata.tenant` of the objects in the files of `kubectl … -f`.

kubectl knows no tenants: it would send an object that names the tenant B to the tenant of its URL. So the files are
read before; what cannot be read here (URLs, files that are no YAML) is left to kubectl and the API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from alcove.cli.errors import CliError
from alcove.cli.kubectl_arguments import values_of

STDIN = "-"
_NAMES = ("-f", "--filename")
_NO_MANIFESTS = frozenset(("logs", "exec", "attach", "cp", "port-forward", "config"))
"""Commands of which `-f` is another option, or which send no objects."""
_ENDINGS = (".json", ".yaml", ".yml")


class Manifests(Struct, frozen=True):
    by_tenant: dict[str, list[Any]]
    """Documents by the tenant that they name; those that name none under the empty string."""
    stdin: bytes | None = None
    """What was read from standard input; None if it was not read."""


def read(verb: str, arguments: Sequence[str], stdin: Any) -> Manifests:
    """`stdin` is read only if the arguments name it."""
    arguments = _before_command(arguments)
    files = [each for value in values_of(arguments, _NAMES) for each in value.split(",") if each]
    if verb in _NO_MANIFESTS or not files:
        return Manifests({})
    read_stdin = stdin.buffer.read() if STDIN in files else None
    by_tenant: dict[str, list[Any]] = {}
    is_recursive = bool({"-R", "--recursive", "--recursive=true"} & set(arguments))
    for file in files:
        texts = [read_stdin] if file == STDIN else _texts(Path(file), is_recursive)
        for document in (each for text in texts for each in _documents(text or b"")):
            by_tenant.setdefault(_tenant_of(document), []).append(document)
    return Manifests(by_tenant, read_stdin)


def check(manifests: Manifests, tenant: str) -> None:
    """Raises CliError if an object names another tenant than `tenant`, which the command line names."""
    for named in manifests.by_tenant:
        if named and named != tenant:
            raise CliError(
                f'the tenant from the provided object "{named}" does not match the tenant "{tenant}". '
                f"You must pass '--tenant={named}' to perform this operation."
            )


def without_files(arguments: Sequence[str]) -> list[str]:
    """The arguments with standard input in place of the files."""
    remaining: list[str] = []
    pending = _before_command(arguments)
    while pending:
        argument = pending.pop(0)
        if argument in _NAMES:
            pending.pop(0)
        elif argument.partition("=")[0] not in _NAMES and not argument.startswith("-f"):
            remaining.append(argument)
    return [*remaining, f"--filename={STDIN}"]


def _before_command(arguments: Sequence[str]) -> list[str]:
    """The arguments before `--`, after which a command in a pod follows."""
    return list(arguments[: arguments.index("--")] if "--" in arguments else arguments)


def _texts(path: Path, is_recursive: bool) -> Iterator[bytes]:
    try:
        if path.is_dir():
            found = path.rglob("*") if is_recursive else path.glob("*")
            for each in sorted(found):
                if each.suffix in _ENDINGS and each.is_file():
                    yield each.read_bytes()
        elif path.exists():
            yield path.read_bytes()
    except OSError:
        return  # kubectl reports it.


def _documents(text: bytes) -> list[Any]:
    try:
        return [each for each in yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if each]
    except (yaml.YAMLError, UnicodeDecodeError):
        return []


def _tenant_of(document: Any) -> str:
    """The tenant of an object, or of the first item of a list that names one."""
    if not isinstance(document, dict):
        return ""
    metadata = document.get("metadata")
    named = metadata.get("tenant") if isinstance(metadata, dict) else None
    if named:
        return str(named)
    items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
    tenants = [_tenant_of(item) for item in items] if isinstance(items, list) else []
    return next((each for each in tenants if each), "")
