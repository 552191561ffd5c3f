"""`alcove kubectl …` and the plugin `kubectl tenant …`: the machine's kubectl, in any tenant.

What is added to kubectl's own command line: `--tenant T` (before or after the verb), `--all-tenants` with
`get`, `create tenant NAME`, and `cp` with `TENANT/NAMESPACE/POD:PATH`. Everything else goes through as it is.
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
    """Run kubectl, with --tenant, --all-tenants, `create tenant` and TENANT/NS/POD paths for `cp`."""
    with exit_on_error():
        run(context.args)


def run(words: list[str]) -> None:
    """Never returns: kubectl takes this process' place, or its exit code is ours. Raises Failure."""
    from alcove.cli.kubectl_arguments import plan

    wanted = plan(words)
    program = shutil.which("kubectl")
    if program is None:
        raise CliError("kubectl is not installed (Debian: apt install kubernetes-client)")
    path = _kubeconfig(wanted)
    # By the environment: kubectl takes no options before the name of a plugin.
    os.environ["KUBECONFIG"] = str(path)
    words = list(wanted.arguments)
    words[1:1] = _server(wanted, path)
    if wanted.new_tenant:
        raise typer.Exit(_create(program, words, wanted.new_tenant))
    if wanted.all_tenants:
        from alcove.cli import all_tenants

        if (form := all_tenants.table_format(words)) is not None:
            raise typer.Exit(all_tenants.get(program, words, form))
    os.execv(program, ["kubectl", *words])


def _create(program: str, words: list[str], tenant: str) -> int:
    """kubectl knows no tenants to create, but takes any manifest."""
    manifest = f"apiVersion: v1\nkind: Tenant\nmetadata:\n  name: {tenant}\n"
    return subprocess.run([program, *words], input=manifest, text=True, check=False).returncode


def _kubeconfig(wanted: KubectlInvocation) -> Path:
    from alcove.cli.data_directories import default_kubeconfig

    path = Path(wanted.kubeconfig) if wanted.kubeconfig else default_kubeconfig()
    if not path.exists():
        raise CliError(
            f"there is no kubeconfig {path}; `alcove up` makes a cluster, --kubeconfig names another file",
            ExitCode.UNREACHABLE,
        )
    return path


def _server(wanted: KubectlInvocation, path: Path) -> list[str]:
    """A tenant is a path of the server's URL, for any client."""
    tenant = "all" if wanted.all_tenants else wanted.tenant
    if not tenant:
        return []
    from alcove.cli.connection import load
    from alcove.cli.kubeconfig import server_url

    return [f"--server={server_url(load(path).server, tenant)}"]


def main(words: list[str]) -> NoReturn:
    """`alcove kubectl WORDS…` as a process."""
    try:
        with exit_on_error():
            run(words)
    except typer.Exit as done:
        raise SystemExit(done.exit_code) from done
    raise SystemExit(0)


def plugin() -> NoReturn:
    """The console script `kubectl-tenant`: `kubectl tenant T get pods` is kubectl in the tenant T."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        typer.echo("Usage: kubectl tenant NAME WORDS…   kubectl in the tenant NAME, as in `get pods`")
        typer.echo("       kubectl tenant all get …      in all tenants at once")
        raise SystemExit(0 if words else ExitCode.USAGE)
    if words == ["--version"]:
        typer.echo(f"kubectl-tenant {alcove.__version__}")
        raise SystemExit(0)
    name, rest = words[0], words[1:]
    main([*rest, "--all-tenants"] if name == "all" else [f"--tenant={name}", *rest])
