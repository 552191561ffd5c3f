"""`alcove kubectl …` and the plugin `kubectl tenant …`: run the installed kubectl in any tenant.

Additions to kubectl's command line: `--tenant T` (before or after the verb), `--all-tenants` with `get`,
`create tenant NAME`, and `cp` with `TENANT/NAMESPACE/POD:PATH`. Everything else is passed on unchanged.
"""

from __future__ import annotations

import os
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

CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def kubectl(context: typer.Context) -> None:
    """Run kubectl with the additions --tenant, --all-tenants, `create tenant` and TENANT/NS/POD paths for
    `cp`."""
    with exit_on_error():
        run(context.args)


def run(arguments: list[str]) -> None:
    """Never returns: replaces this process by kubectl, or exits with kubectl's exit code. Raises CliError."""
    from alcove.cli.kubectl_arguments import plan

    invocation = plan(arguments)
    program = shutil.which("kubectl")
    if program is None:
        raise CliError("kubectl is not installed (Debian: apt install kubernetes-client)")
    path = _kubeconfig(invocation)
    # Passed in the environment: kubectl accepts no options before the name of a plugin.
    os.environ["KUBECONFIG"] = str(path)
    arguments = list(invocation.arguments)
    arguments[1:1] = _server(invocation, path)
    if invocation.new_tenant:
        raise typer.Exit(_create(program, arguments, invocation.new_tenant))
    if invocation.all_tenants:
        from alcove.cli import all_tenants

        if (form := all_tenants.table_format(arguments)) is not None:
            raise typer.Exit(all_tenants.get(program, arguments, form))
    os.execv(program, ["kubectl", *arguments])


def _create(program: str, arguments: list[str], tenant: str) -> int:
    """kubectl has no `create tenant`; it gets a manifest on standard input."""
    manifest = f"apiVersion: v1\nkind: Tenant\nmetadata:\n  name: {tenant}\n"
    return subprocess.run([program, *arguments], input=manifest, text=True, check=False).returncode


def _kubeconfig(invocation: KubectlInvocation) -> Path:
    from alcove.cli.data_directories import default_kubeconfig

    path = Path(invocation.kubeconfig) if invocation.kubeconfig else default_kubeconfig()
    if not path.exists():
        raise CliError(
            f"kubeconfig {path} not found; start a cluster with `alcove up`, or set --kubeconfig",
            ExitCode.UNREACHABLE,
        )
    return path


def _server(invocation: KubectlInvocation, path: Path) -> list[str]:
    """The --server option: a tenant is selected by the path of the server's URL."""
    tenant = "all" if invocation.all_tenants else invocation.tenant
    if not tenant:
        return []
    from alcove.cli.connection import load
    from alcove.cli.kubeconfig import server_url

    return [f"--server={server_url(load(path).server, tenant)}"]


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
