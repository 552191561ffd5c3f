"""The verbs for the cluster of this machine: `up`, `down`, `destroy`, `status`, `logs`, `doctor`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from alcove.cli import suggestions
from alcove.cli.data_directories import DEFAULT_NAME, NAME_VARIABLE, cluster_data
from alcove.cli.errors import CliError, ExitCode, exit_on_error, fail
from alcove.cli.options import FormatOption, OutputFormat
from alcove.component.logs import Form, Level
from alcove.processes.verbs.logs import LOG_FORMAT, LOG_LEVEL

NameOption = Annotated[
    str,
    typer.Option(
        "--name", envvar=NAME_VARIABLE, help="Which cluster of this machine; several live side by side."
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Directory of its state [~/.local/state/alcove[/NAME]].")
]
RESERVED = frozenset(("logs", "nodes", "pki", "agent"))
"""Folders of the default cluster, below which those of the others are."""


def data_directory_of(name: str, data: Path | None) -> Path:
    """Raises Failure."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", name) or name in RESERVED:
        raise CliError(
            f'"{name}" cannot be a cluster\'s name: take lower-case letters and digits', ExitCode.USAGE
        )
    return data if data is not None else cluster_data(name)


def up(
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=0, help="Nodes on this machine; default: as before, else 1.")
    ] = None,
    name: NameOption = DEFAULT_NAME,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the API; default: 6443, or the next that is free."),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            help="Further address of this machine for the API, for nodes of other machines; repeatable."
        ),
    ] = None,
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Nodes only pretend to run pods; needs no root.")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="Show two tenants with the same addresses.")
    ] = True,
    log_level: Annotated[Level | None, LOG_LEVEL] = None,
    log_format: Annotated[Form | None, LOG_FORMAT] = None,
    data: DataOption = None,
) -> None:
    """Start this machine's cluster in the background, and show what it can do."""
    from alcove.processes.machine.cluster_request import ClusterNotUp, RequestedCluster
    from alcove.processes.machine.progress import Progress
    from alcove.processes.up import start
    from alcove.processes.verbs import welcome

    progress = Progress()
    with exit_on_error():
        place = data_directory_of(name, data)
        wanted = RequestedCluster(
            name=name,
            nodes=nodes,
            port=port,
            hollow=hollow,
            listen=tuple(listen or ()),
            log_level=log_level,
            log_format=log_format,
        )
        try:
            cluster = start(place, wanted, progress)
        except ClusterNotUp as error:
            raise CliError(str(error)) from error
        typer.echo(f"up in {progress.seconds:.1f} s")
        is_good = True
        if demo and cluster.nodes:
            from alcove.processes.demo import show

            is_good = show(cluster, progress)
        welcome.describe(cluster, with_demo=demo and bool(cluster.nodes))
        if not is_good:
            raise fail("the cluster is up, but the demo did not go as it must; `alcove logs` may tell why")


def down(name: NameOption = DEFAULT_NAME, data: DataOption = None) -> None:
    """Stop this machine's cluster, pods too; its state stays, and `up` starts the pods again."""
    from alcove.processes.down import stop
    from alcove.processes.machine.cluster_request import ClusterNotUp

    with exit_on_error():
        try:
            stopped = stop(data_directory_of(name, data))
        except ClusterNotUp as error:
            raise CliError(str(error)) from error
    typer.echo("down" if stopped else "was not up")


def destroy(
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove this machine's cluster with all its state, and everything it has in the kernel."""
    from alcove.processes.machine.cluster_request import ClusterNotUp

    with exit_on_error():
        place = data_directory_of(name, data)
        if not yes:
            if not sys.stdin.isatty():
                raise CliError(
                    "this removes every tenant and object; --yes says that you mean it", ExitCode.USAGE
                )
            typer.confirm(f"Remove the cluster in {place}, with all its tenants?", abort=True)
        from alcove.processes.down import destroy as remove

        try:
            removed = remove(place)
        except ClusterNotUp as error:
            raise CliError(str(error)) from error
    typer.echo("gone" if removed else "there was none")


def status(
    name: NameOption = DEFAULT_NAME, data: DataOption = None, form: FormatOption = OutputFormat.TABLE
) -> None:
    """Show what of this machine's cluster runs; exits with 3 if it is down, with 1 if a part is."""
    from alcove.processes.verbs.status import report

    with exit_on_error():
        place = data_directory_of(name, data)
        if not report(place, form):
            raise fail("a part of the cluster does not work; `alcove logs PART` may tell why")


def logs(
    component: Annotated[
        list[str] | None,
        typer.Argument(
            help="apiserver, controllers, scheduler, node-1, …; default: all.",
            autocompletion=suggestions.logs,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written next.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last.")] = 50,
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
) -> None:
    """Show the logs of the cluster's processes."""
    from alcove.processes.machine import logs as files

    with exit_on_error():
        folder = data_directory_of(name, data) / "logs"
        known = {path.stem: path for path in sorted(folder.glob("*.log"))}
        wanted = component or list(known)
        if missing := [each for each in wanted if each not in known]:
            there = f"there are {', '.join(known)}" if known else f"there are none in {folder}"
            raise CliError(f"no log of {', '.join(missing)}; {there}", ExitCode.NOT_FOUND)
        if not wanted:
            raise CliError(
                f"there are no logs in {folder}; `alcove up` starts a cluster", ExitCode.UNREACHABLE
            )
        paths = [known[each] for each in wanted]
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
    """Try what this machine can do, and say what would mend the rest; exits with 0 only if it can run tenants' pods."""
    from alcove.cli.output import show_rows
    from alcove.processes.machine import cluster, preflight, supervisor_state
    from alcove.processes.machine.cluster_request import PORT

    with exit_on_error():
        place = data_directory_of(name, data)
        try:
            known = cluster.load(place)
        except cluster.BadCluster as error:
            raise CliError(str(error)) from error
        is_up = supervisor_state.holder(place) is not None
        found = preflight.look(preflight.DataDirectory(place, known.port if known else PORT, is_up))
        show_rows(("CHECK", "STATE", "DETAIL", "FIX"), [_row(each) for each in found], form)
        lacking = preflight.lacking(found)
        if missing := [*lacking, *preflight.without_tenants(found)]:
            what = "tenants' pods cannot run here"
            if any(each.state is preflight.CheckState.FAILED for each in lacking):
                what = "a cluster cannot start here"
            elif lacking:
                what = "nodes here can only be hollow"
            raise fail(f"{what}: {', '.join(each.name for each in missing)}")


def _row(finding: object) -> tuple[object, ...]:
    from alcove.processes.machine.preflight import PreflightFinding

    assert isinstance(finding, PreflightFinding)
    return finding.name, finding.state.value, finding.detail, finding.fix
