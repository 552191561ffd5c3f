"""`alcove flows` and `alcove drops`: connections and dropped packets in tenants' networks, from all nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TenantOption

if TYPE_CHECKING:
    from alcove.api.kind import PrinterColumn
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession

IDLE_SECONDS_MAX = 3_700.0
"""The server ends a watch after at most an hour; then it is begun again."""
PAUSE_SECONDS = 1.0
OVERLAP_SECONDS = 3
"""The kernel's times are exact to about a second."""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Verdict(StrEnum):
    FORWARDED = "forwarded"
    DROPPED = "dropped"


PodOption = Annotated[
    str, typer.Option("--pod", help="Show only this pod's: NAME, or NAMESPACE/NAME. Services too.")
]
ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        help="Show only those to this pod or service (NAME, NAMESPACE/NAME), address, or port (:PORT).",
    ),
]
SinceOption = Annotated[
    str, typer.Option("--since", help="Show only those with packets in this time, such as 30s, 5m or 2h.")
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Follow new ones until interrupted.")]
LimitOption = Annotated[
    int, typer.Option("--limit", min=1, max=10_000, help="Show at most this many; the newest.")
]


def flows(
    tenant: TenantOption = "",
    pod: PodOption = "",
    to: ToOption = "",
    verdict: Annotated[Verdict | None, typer.Option("--verdict", help="Show only these.")] = None,
    since: SinceOption = "",
    follow: FollowOption = False,
    limit: LimitOption = 1_000,
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show connections in tenants' networks: who talks to whom, how much, and by which policy."""
    from alcove.api.columns.sight import FLOW

    with exit_on_error():
        query = FlowQuery(tenant, pod, to, verdict or "", seconds_of(since), limit)
        _show(query, FLOW, form, via, follow=follow)


def drops(
    tenant: TenantOption = "",
    pod: PodOption = "",
    to: ToOption = "",
    since: SinceOption = "",
    follow: FollowOption = False,
    limit: LimitOption = 1_000,
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show packets that were dropped in tenants' networks, and why."""
    from alcove.api.columns.sight import DROP

    with exit_on_error():
        query = FlowQuery(tenant, pod, to, Verdict.DROPPED, seconds_of(since), limit)
        _show(query, DROP, form, via, follow=follow)


class FlowQuery:
    """Which flows are shown."""

    def __init__(self, tenant: str, pod: str, to: str, verdict: str, since_seconds: int, limit: int) -> None:
        self.tenant = tenant
        self.namespace, _, self.pod = pod.rpartition("/")
        self.verdict = verdict
        self.since_seconds = since_seconds
        self.limit = limit
        self.is_to = to_matcher(to)

    def fetch(self, session: CliSession, since_seconds: int) -> list[Object]:
        """The newest first. Without a tenant, those of all tenants; for a tenant's user, its own."""
        from alcove.api.errors import Forbidden

        try:
            found = self.request(session, self.tenant or "all", since_seconds)
        except Forbidden:
            if self.tenant:
                raise
            found = self.request(session, "", since_seconds)
        return [flow for flow in found if self.is_to(flow)]

    def request(self, session: CliSession, tenant: str, since_seconds: int) -> list[Object]:
        from alcove.cli.output import escape

        answer = session.connection.request("GET", self._path(tenant, since_seconds))
        for text in session.connection.warnings:
            typer.echo(f"warning: {escape(text)}", err=True)
        items: list[Object] = answer["items"]
        return items

    def follow(self, session: CliSession) -> Iterator[Object]:
        """New flows, and drops when there are more of them, as they come. Raises ApiError when the tenant or the pod is
        gone."""
        from alcove.api.errors import Forbidden

        try:
            yield from self._watch(session, self.tenant or "all")
        except Forbidden:
            if self.tenant:
                raise
            yield from self._watch(session, "")

    def _watch(self, session: CliSession, tenant: str) -> Iterator[Object]:
        from alcove.api.errors import from_status

        since_seconds = self.since_seconds
        while True:
            path = self._path(tenant, since_seconds, "true")
            for event in session.connection.lines(path, IDLE_SECONDS_MAX):
                if event["type"] == "ERROR":
                    raise from_status(event["object"])
                if self.is_to(event["object"]) or event["object"].get("lost"):
                    yield event["object"]
            time.sleep(PAUSE_SECONDS)
            since_seconds = OVERLAP_SECONDS

    def _path(self, tenant: str, since_seconds: int, watch: str = "") -> str:
        from alcove.client import paths
        from alcove.client.resources import FLOWS

        query = {
            "verdict": str(self.verdict),
            "pod": self.pod,
            "sinceSeconds": str(since_seconds) if since_seconds else "",
            "limit": str(self.limit),
            "watch": watch,
        }
        within = f"/tenants/{tenant}" if tenant else ""
        within += f"/namespaces/{self.namespace}" if self.namespace else ""
        return paths.with_query(f"{FLOWS.root}{within}/flows", query)


def _show(
    query: FlowQuery, columns: tuple[PrinterColumn, ...], form: OutputFormat, via: object, *, follow: bool
) -> None:
    from pathlib import Path

    from alcove.cli.output import Following, escape, show
    from alcove.cli.session import CliSession

    session = CliSession(via if isinstance(via, Path) else None)
    if not follow:
        found = query.fetch(session, query.since_seconds)
        show(found[::-1], columns, form, with_tenant=not query.tenant)
        return
    following = Following(columns, form, with_tenant=not query.tenant)
    for flow in query.follow(session):
        if flow.get("lost"):
            typer.echo(f"warning: {flow['lost']} flows of {escape(flow['node'])} are left out", err=True)
        if query.is_to(flow):
            following.show(flow)


def seconds_of(text: str) -> int:
    """The seconds of a duration such as 90, 30s, 5m, 2h or 1d; 0 if there is none. Raises CliError."""
    if not text:
        return 0
    match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text)
    if match is None:
        raise CliError(
            f'invalid duration "{text}": use a number and s, m, h or d, such as 5m', ExitCode.USAGE
        )
    return int(match[1]) * _UNITS[match[2]]


def to_matcher(text: str) -> Callable[[Object], bool]:
    """Whether a flow goes to what `--to` says."""
    # An IPv6 address is in brackets where a port follows it.
    place = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<name>[^:]*))(?::(?P<port>[0-9]+))?", text)
    name, port = (place["six"] or place["name"], place["port"] or "") if place else (text, "")

    def is_to(flow: Object) -> bool:
        ends = [end for end in (flow["destination"], flow.get("service")) if end]
        return any(_is_end(end, name) and (not port or str(end.get("port", 0)) == port) for end in ends)

    return is_to


def _is_end(end: Object, name: str) -> bool:
    full = f"{end.get('namespace', '')}/{end.get('name', '')}"
    return not name or name in (end.get("address"), end.get("name"), full)
