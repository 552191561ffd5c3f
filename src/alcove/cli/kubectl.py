"""`alcove kubectl …` and the plugin `kubectl tenant …`: run the installed kubectl in any tenant.

Additions to kubectl's command line: `--tenant T` (before or after the verb), `--all-tenants` with `get`,
`create tenant NAME`, and `cp` with `TENANT/NAMESPACE/POD:PATH`. Objects of manifests go to the tenant that they name
(`metadata.tenant`), `describe` shows the tenant, and `drain` evicts the pods of all tenants. Everything else is passed
on unchanged.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

import alcove
from alcove.cli.errors import CliError, ExitCode, exit_on_error

if TYPE_CHECKING:
    from alcove.cli.kubectl_arguments import KubectlInvocation
    from alcove.cli.kubectl_manifests import Manifests

CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def kubectl(context: typer.Context) -> None:
    """Run kubectl with the additions --tenant, --all-tenants, `create tenant`, TENANT/NS/POD paths for `cp`,
    `metadata.tenant` in manifests, and `drain` for the pods of all tenants."""
    with exit_on_error():
        run(context.args)


def run(arguments: list[str]) -> None:
    """Never returns: replaces this process by kubectl, or exits with kubectl's exit code. Raises CliError."""
    from msgspec import structs

    from alcove.cli import kubectl_manifests
    from alcove.cli.kubectl_arguments import plan

    invocation = plan(arguments)
    program = shutil.which("kubectl")
    if program is None:
        raise CliError("kubectl is not installed (Debian: apt install kubernetes-client)")
    path = _kubeconfig(invocation)
    # Passed in the environment: kubectl accepts no options before the name of a plugin.
    os.environ["KUBECONFIG"] = str(path)
    if invocation.verb == "drain" and invocation.tenant in ("", "system") and not _asks_help(invocation):
        _drain(invocation, path)
        return
    manifests = kubectl_manifests.read(invocation.verb, invocation.arguments, sys.stdin)
    if invocation.tenant:
        kubectl_manifests.check(manifests, invocation.tenant)
    elif len(manifests.by_tenant) == 1:
        invocation = structs.replace(invocation, tenant=next(iter(manifests.by_tenant)))
    elif manifests.by_tenant:
        raise typer.Exit(_send_manifests(program, invocation, path, manifests))
    _call(program, invocation, path, manifests.stdin)


def _call(program: str, invocation: KubectlInvocation, path: Path, stdin: bytes | None) -> None:
    """Never returns. `stdin` is what was read from standard input already."""
    from alcove.cli.kubectl_arguments import with_options

    arguments = with_options(invocation.arguments, _server(invocation, path, invocation.tenant))
    if invocation.new_tenant:
        raise typer.Exit(_create(program, arguments, invocation.new_tenant))
    if invocation.all_tenants:
        from alcove.cli import all_tenants

        if (form := all_tenants.table_format(arguments)) is not None:
            raise typer.Exit(all_tenants.get(program, arguments, form))
    if invocation.verb == "describe" and not _asks_help(invocation):
        raise typer.Exit(_describe(program, arguments, _tenant(invocation, path), stdin))
    if stdin is not None:
        raise typer.Exit(subprocess.run([program, *arguments], input=stdin, check=False).returncode)
    os.execv(program, ["kubectl", *arguments])


def _create(program: str, arguments: list[str], tenant: str) -> int:
    """kubectl has no `create tenant`; it gets a manifest on standard input, and its messages need not say so."""
    manifest = f"apiVersion: v1\nkind: Tenant\nmetadata:\n  name: {tenant}\n"
    done = subprocess.run(
        [program, *arguments], input=manifest, stderr=subprocess.PIPE, text=True, check=False
    )
    sys.stderr.write(done.stderr.replace('error when creating "STDIN": ', ""))
    return done.returncode


def _send_manifests(program: str, invocation: KubectlInvocation, path: Path, manifests: Manifests) -> int:
    """Runs kubectl once per tenant that the manifests name, with its objects on standard input. Returns the first
    exit code that is not zero."""
    import yaml

    from alcove.cli.kubectl_arguments import with_options
    from alcove.cli.kubectl_manifests import without_files

    codes: list[int] = []
    for tenant, documents in manifests.by_tenant.items():
        arguments = with_options(without_files(invocation.arguments), _server(invocation, path, tenant))
        text = yaml.safe_dump_all(documents).encode()
        if invocation.verb == "describe":
            codes.append(_describe(program, arguments, tenant or _tenant(invocation, path), text))
        else:
            codes.append(subprocess.run([program, *arguments], input=text, check=False).returncode)
    return next((code for code in codes if code), 0)


def _describe(program: str, arguments: list[str], tenant: str, stdin: bytes | None) -> int:
    """Adds the tenant after the name of each object that kubectl describes."""
    source = subprocess.PIPE if stdin is not None else None
    with subprocess.Popen([program, *arguments], stdin=source, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if stdin is not None and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            if named := re.match(rb"Name:\s+(?=\S)", line):
                sys.stdout.buffer.write(b"Tenant:".ljust(named.end()) + tenant.encode() + b"\n")
            sys.stdout.buffer.flush()
    return process.returncode


def _drain(invocation: KubectlInvocation, path: Path) -> None:
    from alcove.cli import kubectl_drain
    from alcove.cli.drain import NodeDrain
    from alcove.cli.session import CliSession

    node, options = kubectl_drain.parse(invocation.arguments)
    NodeDrain(CliSession(path, invocation.context), node, options, typer.echo).run()
    typer.echo(f"node/{node} drained")


def _asks_help(invocation: KubectlInvocation) -> bool:
    return bool({"-h", "--help"} & set(invocation.arguments))


def _kubeconfig(invocation: KubectlInvocation) -> Path:
    from alcove.cli.data_directories import default_kubeconfig

    path = Path(invocation.kubeconfig) if invocation.kubeconfig else default_kubeconfig()
    if not path.exists():
        raise CliError(
            f"kubeconfig {path} not found; start a cluster with `alcove up`, or set --kubeconfig",
            ExitCode.UNREACHABLE,
        )
    return path


def _server(invocation: KubectlInvocation, path: Path, tenant: str) -> list[str]:
    """The --server option: a tenant is selected by the path of the server's URL."""
    tenant = "all" if invocation.all_tenants else tenant
    if not tenant:
        return []
    from alcove.cli.connection import load
    from alcove.cli.kubeconfig import server_url

    return [f"--server={server_url(load(path, invocation.context).server, tenant)}"]


def _tenant(invocation: KubectlInvocation, path: Path) -> str:
    """The tenant that kubectl talks to: of the command line, the kubeconfig, or the user's own."""
    from alcove.cli.connection import CliConnection, load

    user = load(path, invocation.context)
    if invocation.tenant or user.tenant:
        return invocation.tenant or user.tenant
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = CliConnection(user).request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return str(answer["status"]["userInfo"]["extra"]["alcove/tenant"][0])


def main(arguments: list[str]) -> NoReturn:
    """Entry point of `alcove kubectl ARGUMENTS…`."""
    try:
        with exit_on_error():
            run(arguments)
    except typer.Exit as exit_:
        raise SystemExit(exit_.exit_code) from exit_
    raise SystemExit(0)


def plugin() -> NoReturn:
    """The console script `kubectl-tenant`: `kubectl tenant T get pods` is kubectl in the tenant T."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        typer.echo("Usage: kubectl tenant NAME ARGUMENTS…   run kubectl in the tenant NAME")
        typer.echo("       kubectl tenant all get …         get objects of all tenants")
        raise SystemExit(0 if arguments else ExitCode.USAGE)
    if arguments == ["--version"]:
        typer.echo(f"kubectl-tenant {alcove.__version__}")
        raise SystemExit(0)
    name, rest = arguments[0], arguments[1:]
    main([*rest, "--all-tenants"] if name == "all" else [f"--tenant={name}", *rest])
