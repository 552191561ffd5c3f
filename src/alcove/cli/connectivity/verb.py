"""`alcove connectivity test`: checks reachability and isolation between pods of several networks and
nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error, fail
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TimeoutOption

if TYPE_CHECKING:
    from alcove.cli.connectivity.checks import CheckResult
    from alcove.cli.connectivity.runner import ConnectivityRunner
    from alcove.cli.connectivity.topology import CheckTopology

app = typer.Typer(help="Check reachability and isolation of tenants' pods.", no_args_is_help=True)

TENANTS = ("connectivity-a", "connectivity-b")
NETWORKS = ("red", "blue")
CIDR = "10.77.0.0/24"
NODES_MAX = 3
HEADS = ("FROM", "TO", "KIND", "EXPECTED", "GOT", "RESULT")


@app.callback()
def _group() -> None:
    """Keeps `test` a subcommand: typer would drop the name of a single command."""


@app.command()
def test(
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes", min=1, help="Number of nodes to use; default: three, or all if there are fewer."
        ),
    ] = NODES_MAX,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the test tenants afterwards, for inspection.")
    ] = False,
    dedicated: Annotated[
        bool, typer.Option("--dedicated", help="Give the test tenants API servers of their own.")
    ] = False,
    all_results: Annotated[
        bool, typer.Option("--all", help="Show every check, not only the summary and failures.")
    ] = False,
    form: FormatOption = OutputFormat.TABLE,
    timeout: TimeoutOption = 180.0,
    via: KubeconfigOption = None,
) -> None:
    """Check every pair of pods in several networks of two tenants, DNS, services and the API; exits with 1 if
    any check fails."""
    from alcove.cli.connectivity.runner import ConnectivityRunner, real_nodes
    from alcove.cli.connectivity.topology import build
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        found = real_nodes(session)[:nodes]
        if not found:
            raise CliError(
                "no ready node runs pods, so nothing can be checked; run `alcove doctor` for the reason"
            )
        topology = build(TENANTS, NETWORKS, CIDR, found)
        runner = ConnectivityRunner(session, topology, timeout, is_dedicated=dedicated)
        try:
            results = _run_checks(runner, topology, form)
        finally:
            if not keep:
                runner.remove()
        _show(results, form, all_results)
        if wrong := sum(not result.is_right for result in results):
            raise fail(f"{wrong} of {len(results)} checks failed", ExitCode.FAILED)


def _run_checks(runner: ConnectivityRunner, topology: CheckTopology, form: OutputFormat) -> list[CheckResult]:
    from alcove.cli.connectivity.checks import Check, CheckKind, CheckResult, checks

    quiet = form not in (OutputFormat.TABLE, OutputFormat.WIDE)
    if not quiet:
        typer.echo(
            f"{len(topology.pods)} pods in {len(topology.networks)} networks of {len(topology.tenants)} tenants…",
            err=True,
        )
    runner.build()
    results = runner.ask(checks(topology, runner.vips(), runner.agents()))
    for pod in topology.pods:
        user = f"system:serviceaccount:{pod.namespace}:default"
        token_check = Check(
            pod, CheckKind.API, "its token", 0, frozenset((user,)), "its service account token"
        )
        results.append(CheckResult(token_check, runner.token_user(pod)))
    return results


def _show(results: list[CheckResult], form: OutputFormat, every: bool) -> None:
    from alcove.cli.output import show_rows, table

    if form in (OutputFormat.TABLE, OutputFormat.WIDE):
        _show_summary(results)
        shown = results if every else [result for result in results if not result.is_right]
        if shown:
            typer.echo()
            table(HEADS, [_row(result) for result in shown])
    else:
        show_rows(HEADS, [_row(result) for result in results], form)


def _show_summary(results: list[CheckResult]) -> None:
    from alcove.cli.output import table

    groups: dict[tuple[str, str], list[CheckResult]] = {}
    for result in results:
        rule = "must answer" if result.check.expected else "must not answer"
        groups.setdefault((result.check.kind.value, rule), []).append(result)
    rows = []
    for (kind, rule), group in groups.items():
        right = sum(result.is_right for result in group)
        rows.append((kind, rule, f"{right} of {len(group)}", "ok" if right == len(group) else "failed"))
    table(("KIND", "RULE", "PASSED", "RESULT"), rows)


def _row(result: CheckResult) -> list[str]:
    check = result.check
    target = f"{check.target}:{check.port}" if check.port else check.target
    expected = " or ".join(sorted(check.expected)) or "no answer"
    outcome = "ok" if result.is_right else "failed"
    return [check.source.identity, target, check.kind.value, expected, result.answer or "no answer", outcome]
