"""`alcove connectivity test`: pods in several networks and nodes, and every pair that must and must not talk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error, fail
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TimeoutOption

if TYPE_CHECKING:
    from alcove.cli.connectivity.checks import CheckResult
    from alcove.cli.connectivity.runner import ConnectivityRunner
    from alcove.cli.connectivity.topology import CheckTopology

app = typer.Typer(help="Whether pods reach what they must, and nothing else.", no_args_is_help=True)

TENANTS = ("connectivity-a", "connectivity-b")
NETWORKS = ("red", "blue")
CIDR = "10.77.0.0/24"
NODES_MAX = 3
HEADS = ("FROM", "TO", "KIND", "EXPECTED", "GOT", "RESULT")


@app.callback()
def _group() -> None:
    """One verb so far, which is called by its name all the same."""


@app.command()
def test(
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, help="On how many nodes; default: three, if there are so many.")
    ] = NODES_MAX,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the tenants there, to look into it.")] = False,
    all_results: Annotated[
        bool, typer.Option("--all", help="Show every check, not only sums and what is wrong.")
    ] = False,
    form: FormatOption = OutputFormat.TABLE,
    timeout: TimeoutOption = 180.0,
    via: KubeconfigOption = None,
) -> None:
    """Try every pair of pods in several networks of two tenants, DNS, services and the API; exits with 1 if any
    is not as it must be."""
    from alcove.cli.connectivity.runner import ConnectivityRunner, real_nodes
    from alcove.cli.connectivity.topology import build
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        found = real_nodes(session)[:nodes]
        if not found:
            raise CliError("no node here really runs pods (`alcove doctor` says why): nothing can be tried")
        topology = build(TENANTS, NETWORKS, CIDR, found)
        stage = ConnectivityRunner(session, topology, timeout)
        try:
            results = _tried(stage, topology, form)
        finally:
            if not keep:
                stage.remove()
        _show(results, form, all_results)
        if wrong := sum(not result.is_right for result in results):
            raise fail(f"{wrong} of {len(results)} checks are not as they must be", ExitCode.FAILED)


def _tried(stage: ConnectivityRunner, topology: CheckTopology, form: OutputFormat) -> list[CheckResult]:
    from alcove.cli.connectivity.checks import Check, CheckKind, CheckResult, checks

    quiet = form not in (OutputFormat.TABLE, OutputFormat.WIDE)
    if not quiet:
        typer.echo(
            f"{len(topology.pods)} pods in {len(topology.networks)} networks of {len(topology.tenants)} tenants…",
            err=True,
        )
    stage.build()
    results = stage.ask(checks(topology, stage.vips(), stage.agents()))
    for pod in topology.pods:
        user = f"system:serviceaccount:{pod.namespace}:default"
        asked = Check(pod, CheckKind.API, "its token", 0, frozenset((user,)), "the API knows it by its token")
        results.append(CheckResult(asked, stage.token_user(pod)))
    return results


def _show(results: list[CheckResult], form: OutputFormat, every: bool) -> None:
    from alcove.cli.output import show_rows, table

    if form in (OutputFormat.TABLE, OutputFormat.WIDE):
        _sums(results)
        shown = results if every else [result for result in results if not result.is_right]
        if shown:
            typer.echo()
            table(HEADS, [_row(result) for result in shown])
    else:
        show_rows(HEADS, [_row(result) for result in results], form)


def _sums(results: list[CheckResult]) -> None:
    from alcove.cli.output import table

    sums: dict[tuple[str, str], list[CheckResult]] = {}
    for result in results:
        must = "must answer" if result.check.expected else "must be silent"
        sums.setdefault((result.check.kind.value, must), []).append(result)
    rows = []
    for (kind, must), group in sums.items():
        right = sum(result.is_right for result in group)
        rows.append((kind, must, f"{right} of {len(group)}", "ok" if right == len(group) else "failed"))
    table(("KIND", "RULE", "AS IT MUST BE", "RESULT"), rows)


def _row(result: CheckResult) -> list[str]:
    check = result.check
    target = f"{check.target}:{check.port}" if check.port else check.target
    expected = " or ".join(sorted(check.expected)) or "silence"
    outcome = "ok" if result.is_right else "failed"
    return [check.source.identity, target, check.kind.value, expected, result.answer or "silence", outcome]
