"""Commands for this machine's cluster: `up`, `down`, `destroy`, `status`, `logs`, `doctor`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli import suggestions
from alcove.cli.data_directories import ADMIN_KUBECONFIG, DEFAULT_NAME, NAME_VARIABLE, cluster_data
from alcove.cli.errors import CliError, ExitCode, exit_on_error, fail
from alcove.cli.options import FormatOption, OutputFormat
from alcove.component.logs import Form, Level
from alcove.processes.verbs.options import LOG_FORMAT, LOG_LEVEL

if TYPE_CHECKING:
    from alcove.processes.machine.cluster import LocalCluster

NameOption = Annotated[
    str,
    typer.Option(
        "--name", envvar=NAME_VARIABLE, help="Name of the local cluster; several can run on one machine."
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="State directory of the cluster [~/.local/state/alcove[/NAME]].")
]
RESERVED = frozenset(("logs", "nodes", "pki", "agent"))
"""Subdirectories of the default cluster, which also contains the directories of named clusters."""


def data_directory_of(name: str, data: Path | None) -> Path:
    """Raises CliError."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", name) or name in RESERVED:
        raise CliError(
            f'"{name}" is not a valid cluster name: use up to 32 lower-case letters, digits and dashes',
            ExitCode.USAGE,
        )
    return data if data is not None else cluster_data(name)


def up(
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=0, help="Number of nodes on this machine; default: unchanged, or 1."),
    ] = None,
    name: NameOption = DEFAULT_NAME,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the API server; default: 6443, or the next free port."),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            help="Additional local address for the API server, for nodes on other machines; repeatable."
        ),
    ] = None,
    insecure_registry: Annotated[
        list[str] | None,
        typer.Option(
            help="HOST[:PORT] of a registry without TLS, as nodes reach it, at any address; repeatable."
        ),
    ] = None,
    usage_interval: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=600,
            help="Seconds after which what tenants use is read, and summed up; default: unchanged, or 60 and 300.",
        ),
    ] = None,
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Run pods without processes (hollow nodes); needs no root.")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="Run the demo: two tenants with the same addresses.")
    ] = True,
    log_level: Annotated[Level | None, LOG_LEVEL] = None,
    log_format: Annotated[Form | None, LOG_FORMAT] = None,
    data: DataOption = None,
) -> None:
    """Start a cluster on this machine in the background, and run a demo."""
    from alcove.processes.machine.cluster_request import ClusterNotUp, RequestedCluster
    from alcove.processes.machine.progress import Progress
    from alcove.processes.up import start

    progress = Progress()
    with exit_on_error():
        directory = data_directory_of(name, data)
        requested = RequestedCluster(
            name=name,
            nodes=nodes,
            port=port,
            hollow=hollow,
            listen=tuple(listen or ()),
            insecure_registries=tuple(insecure_registry or ()),
            usage_interval_seconds=usage_interval,
            log_level=log_level,
            log_format=log_format,
        )
        try:
            cluster = start(directory, requested, progress)
        except ClusterNotUp as error:
            raise CliError(str(error)) from error
        typer.echo(f"up in {progress.seconds:.1f} s")
        passed = True
        if demo and cluster.nodes:
            from alcove.processes.demo import show

            passed = show(cluster, progress)
        _print_next_steps(cluster, with_demo=demo and bool(cluster.nodes))
        if not passed:
            raise fail("the cluster is up, but the demo failed; see `alcove logs`")


def down(name: NameOption = DEFAULT_NAME, data: DataOption = None) -> None:
    """Stop this machine's cluster and its pods; the state is kept, and `up` starts the pods again."""
    from alcove.processes.down import stop
    from alcove.processes.machine.cluster_request import ClusterNotUp

    with exit_on_error():
        try:
            stopped = stop(data_directory_of(name, data))
        except ClusterNotUp as error:
            raise CliError(str(error)) from error
    typer.echo("down" if stopped else "already down")


def destroy(
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip confirmation.")] = False,
) -> None:
    """Remove this machine's cluster with all its state."""
    from alcove.processes.machine.cluster_request import ClusterNotUp

    with exit_on_error():
        directory = data_directory_of(name, data)
        if not yes:
            if not sys.stdin.isatty():
                raise CliError("this removes all tenants and objects; confirm with --yes", ExitCode.USAGE)
            typer.confirm(f"Remove the cluster in {directory} with all its tenants?", abort=True)
        from alcove.processes.down import destroy as remove

        try:
            removed = remove(directory)
        except ClusterNotUp as error:
            raise CliError(str(error)) from error
    typer.echo("destroyed" if removed else "no cluster found")


def status(
    name: NameOption = DEFAULT_NAME, data: DataOption = None, form: FormatOption = OutputFormat.TABLE
) -> None:
    """Show the components of this machine's cluster; exits with 3 if it is down, 1 if one is not ready."""
    from alcove.processes.verbs.status import report

    with exit_on_error():
        directory = data_directory_of(name, data)
        if not report(directory, form):
            raise fail("a component of the cluster is not ready; see `alcove logs COMPONENT`")


def logs(
    component: Annotated[
        list[str] | None,
        typer.Argument(
            help="apiserver, controllers, scheduler, node-1, …; default: all.",
            autocompletion=suggestions.logs,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log output.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of recent lines to show.")] = 50,
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
) -> None:
    """Show the logs of the cluster's processes."""
    from alcove.processes.machine import logs as files

    with exit_on_error():
        logs_directory = data_directory_of(name, data) / "logs"
        log_files = {path.stem: path for path in sorted(logs_directory.glob("*.log"))}
        requested = component or list(log_files)
        if missing := [each for each in requested if each not in log_files]:
            hint = (
                f"available: {', '.join(log_files)}"
                if log_files
                else f"there are no logs in {logs_directory}"
            )
            raise CliError(f"no log found for {', '.join(missing)}; {hint}", ExitCode.NOT_FOUND)
        if not requested:
            raise CliError(
                f"no logs found in {logs_directory}; start a cluster with `alcove up`", ExitCode.UNREACHABLE
            )
        paths = [log_files[each] for each in requested]
        prefix = len(paths) > 1
        for path in paths:
            for line in files.last_lines(path, lines) if lines else ():
                typer.echo(f"{path.stem}: {line}" if prefix else line)
        if follow:
            for path, line in files.follow(paths):
                typer.echo(f"{path.stem}: {line}" if prefix else line)


def doctor(
    name: NameOption = DEFAULT_NAME, data: DataOption = None, form: FormatOption = OutputFormat.TABLE
) -> None:
    """Check this machine's requirements and show fixes; exits with 0 only if it can run tenants' pods."""
    from alcove.cli.output import show_rows
    from alcove.processes.machine import cluster, preflight, supervisor_state
    from alcove.processes.machine.cluster_request import PORT

    with exit_on_error():
        directory = data_directory_of(name, data)
        try:
            existing = cluster.load(directory)
        except cluster.BadCluster as error:
            raise CliError(str(error)) from error
        is_up = supervisor_state.holder(directory) is not None
        found = preflight.look(preflight.DataDirectory(directory, existing.port if existing else PORT, is_up))
        show_rows(("CHECK", "STATE", "DETAIL", "FIX"), [_row(each) for each in found], form)
        lacking = preflight.lacking(found)
        if missing := [*lacking, *preflight.without_tenants(found)]:
            message = "tenants' pods cannot run on this machine"
            if any(each.state is preflight.CheckState.FAILED for each in lacking):
                message = "a cluster cannot start on this machine"
            elif lacking:
                message = "nodes on this machine can only be hollow"
            raise fail(f"{message}: {', '.join(each.name for each in missing)}")


def _row(finding: object) -> tuple[object, ...]:
    from alcove.processes.machine.preflight import PreflightFinding

    assert isinstance(finding, PreflightFinding)
    return finding.name, finding.state.value, finding.detail, finding.fix


def _print_next_steps(cluster: LocalCluster, *, with_demo: bool) -> None:
    program = _program()
    typer.echo("\nNext steps, as the operator (ring0):\n")
    if cluster.data != cluster_data(DEFAULT_NAME).resolve():
        typer.echo(f"  export KUBECONFIG={cluster.data / ADMIN_KUBECONFIG}")
    if with_demo:
        typer.echo(f"  {program} kubectl get pods --all-tenants -o wide")
    typer.echo(f"  {program} tenant create acme")
    typer.echo(f"  {program} tenant kubeconfig acme --output acme.kubeconfig")
    typer.echo("  kubectl --kubeconfig acme.kubeconfig get namespaces,networks")
    typer.echo(f"  {program} status     # also: top, events, logs -f, network list, node list, doctor")
    typer.echo(f"  {program} down       # stops the cluster; `destroy` removes it\n")


def _program() -> str:
    """The command as the user called it if that is an existing path, else `alcove`."""
    command = Path(sys.argv[0])
    return str(command) if command.name == "alcove" and command.exists() and "/" in sys.argv[0] else "alcove"
