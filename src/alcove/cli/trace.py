"""`alcove trace`: what happens to a packet between a pod and something else, from the objects and from the kernel."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TenantOption

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession
    from alcove.client.resources import Resource
    from alcove.network.trace import TenantObjects, Trace, TraceRequest

SEEN_SECONDS = 600
"""How far back flows are looked for."""
LIVE_SECONDS = 10.0
"""Drops of the last seconds may be of the real packet: times are exact to about a second, and replies are waited for."""
API_SERVER = "kubernetes.default.svc"
HEADS = ("STEP", "RESULT", "WHAT HAPPENS")


class TracedProtocol(StrEnum):
    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


def trace(
    pod: Annotated[str, typer.Argument(help="The pod that sends: NAME, or NAMESPACE/NAME.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="Pod or service (NAME, or NAMESPACE/NAME), DNS name or IP address to send to; default: the API server, which "
            "every pod can reach.",
        ),
    ] = API_SERVER,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; not needed for a service with one port.")
    ] = 0,
    protocol: Annotated[
        TracedProtocol, typer.Option("--protocol", case_sensitive=False, help="Protocol.")
    ] = TracedProtocol.TCP,
    live: Annotated[
        bool, typer.Option("--live", help="Send one real packet as well, from the pod, and follow it.")
    ] = False,
    tenant: TenantOption = "",
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Say step by step what should happen to a packet, and what nodes have seen of such packets."""
    from alcove.cli.output import show_rows, to_json
    from alcove.cli.session import CliSession
    from alcove.cli.trace_names import compare_names, name_rows
    from alcove.network.trace import TraceFailure, TraceRequest

    with exit_on_error():
        session = CliSession(via)
        namespace, _, pod_name = pod.rpartition("/")
        request = TraceRequest((namespace or "default", pod_name), to, port, protocol)
        objects = read(session, tenant)
        try:
            found, answer = named(session, tenant, objects, request)
        except TraceFailure as error:
            raise CliError(str(error), ExitCode.NOT_FOUND) from error
        name = found.lookup.name if found.lookup is not None and not answer else ""
        kernel = tried(session, tenant, request, found, name=name, live=live)
        answer = kernel.pop("lookup", answer)
        sent = kernel.pop("live", None)
        flows = seen(session, tenant, request, found)
        node = str(kernel.get("node") or answer.get("node") or "")
        difference = compare_names(found.lookup, answer, node)
        difference = difference or compare_kernel(found, kernel) or compare(found, flows)
        followed = follow(sent, flows) if sent else None
        difference = difference or (compare_live(found, followed) if followed else "")
        if form is OutputFormat.JSON:
            steps = [
                {"step": each.stage, "passes": each.passes, "message": each.message} for each in found.steps
            ]
            typer.echo(
                to_json(
                    {
                        "verdict": found.verdict,
                        "steps": steps,
                        **({"dns": answer} if answer else {}),
                        "kernel": kernel,
                        **({"live": {**sent, "flows": followed.flows}} if followed else {}),
                        "flows": flows,
                        "difference": difference,
                    }
                )
            )
            return
        rows = [(each.stage, "ok" if each.passes else "DROP", each.message) for each in found.steps]
        rows += [("verdict", "", found.verdict), *name_rows(answer, node), *_kernel_rows(kernel)]
        rows += followed.rows() if followed else []
        rows += _seen_rows(flows, difference)
        show_rows(HEADS, rows, form)


def read(session: CliSession, tenant: str) -> TenantObjects:
    """The tenant's objects that decide about its packets."""
    from alcove.client.resources import (
        ENDPOINT_SLICES,
        NAMESPACES,
        NETWORK_POLICIES,
        NETWORKS,
        PODS,
        SERVICES,
    )
    from alcove.network.trace import TenantObjects

    def items(resource: Resource) -> list[Object]:
        return list_of(session, tenant, resource)

    return TenantObjects(
        items(PODS),
        items(SERVICES),
        items(ENDPOINT_SLICES),
        items(NETWORK_POLICIES),
        items(NAMESPACES),
        items(NETWORKS),
    )


def list_of(
    session: CliSession, tenant: str, resource: Resource, query: dict[str, str] | None = None
) -> list[Object]:
    """A list of the tenant's; of the caller's own without one."""
    from alcove.client import paths

    within = f"/tenants/{tenant}" if tenant else ""
    path = paths.with_query(f"{resource.root}{within}/{resource.resource}", query or {})
    answer: list[Object] = session.connection.request("GET", path)["items"]
    return answer


def named(
    session: CliSession, tenant: str, objects: TenantObjects, request: TraceRequest
) -> tuple[Trace, Object]:
    """The trace by the objects; and, if they do not say the address of a name, what the DNS server says of it. Raises
    TraceFailure."""
    from msgspec.structs import replace

    from alcove.cli.trace_names import other_servers
    from alcove.network.trace import find
    from alcove.network.trace import trace as traced

    found = traced(objects, request)
    if found.lookup is None:
        return found, {}
    name = found.lookup.name
    if other := other_servers(find(objects.pods, *request.source) or {}):
        return found, {"name": name, "failure": other}
    if found.lookup.addresses is not None:
        return found, {}
    status = tried(session, tenant, request, found, name=name)
    failure = {"name": name, "failure": status.get("message", "not asked")}
    answer: Object = {"node": status.get("node", ""), **(status.get("lookup") or failure)}
    return traced(objects, replace(request, resolved=tuple(answer.get("addresses") or ()))), answer


def tried(
    session: CliSession,
    tenant: str,
    request: TraceRequest,
    found: Trace,
    *,
    name: str = "",
    live: bool = False,
) -> Object:
    """What the kernel of the pod's node does with such a packet, and its DNS server with the name; empty if there is
    neither."""
    from alcove.api.errors import ApiError
    from alcove.client.resources import TRACES

    if found.dialed is None and not name:
        return {}
    within = f"/tenants/{tenant}" if tenant else ""
    path = f"{TRACES.root}{within}/namespaces/{request.source[0]}/{TRACES.resource}"
    spec: Object = {"pod": request.source[1], "protocol": str(request.protocol)}
    if found.dialed is not None:
        spec["address"], spec["port"] = found.dialed
        spec |= {"live": True} if live else {}
    if name:
        spec["name"] = name
    obj = {"apiVersion": TRACES.api_version, "kind": TRACES.kind, "spec": spec}
    try:
        status: Object = session.connection.request("POST", path, obj)["status"]
        return status
    except ApiError as error:
        return {"message": f"not tried: {error}"}


def compare_kernel(found: Trace, kernel: Object) -> str:
    """Where the kernel differs from what the objects say; empty if it does not, or that cannot be said."""
    from alcove.network.trace import DEPENDS

    if "verdict" not in kernel or found.verdict == DEPENDS:
        return ""
    # The policies of a destination on another node are applied there.
    leaves = bool(kernel.get("nextNode"))
    here = all(step.passes for step in found.steps if not (leaves and step.stage == "ingress policy"))
    if different := _difference(here, kernel):
        return different
    receiver = kernel.get("receiver") or {}
    if "verdict" not in receiver:
        return ""
    return _difference(all(step.passes for step in found.steps), receiver)


def _difference(should_pass: bool, kernel: Object) -> str:
    if should_pass == (kernel["verdict"] == "forwarded"):
        return ""
    return f"the objects say {'forwarded' if should_pass else 'dropped'}, but the kernel of {kernel['node']} does not"


def _kernel_rows(kernel: Object) -> list[tuple[str, str, str]]:
    from alcove.api.columns.sight import end_text

    if "verdict" not in kernel:
        where = f"on {kernel['node']}: " if "node" in kernel else ""
        return [("kernel", "", f"{where}{kernel['message']}")] if "message" in kernel else []
    where = f"on {kernel['node']}"
    if kernel["verdict"] == "forwarded":
        target = end_text(kernel["destination"])
        way = f", by the tunnel to {kernel['nextNode']}" if kernel.get("nextNode") else ""
        return [
            ("kernel", "forwarded", f"{where} to {target}{way}"),
            *_kernel_rows(kernel.get("receiver") or {}),
        ]
    return [("kernel", "dropped", f"{where}: {kernel.get('message', '')}")]


def seen(session: CliSession, tenant: str, request: TraceRequest, found: Trace) -> list[Object]:
    """Flows of the pod to this destination that nodes have seen lately, the newest first."""
    from alcove.client.resources import FLOWS

    query = {"pod": request.source[1], "sinceSeconds": str(SEEN_SECONDS), "limit": "10000"}
    return [
        flow
        for flow in list_of(session, tenant, FLOWS, query)
        if (flow["source"].get("namespace"), flow["source"].get("name")) == request.source
        and flow["protocol"] == request.protocol
        and is_to(flow, found)
    ]


def is_to(flow: Object, found: Trace) -> bool:
    """Whether a flow goes where the traced packet does: to what was dialed, or, on the node of the destination, to what that
    was translated to."""
    wanted = {*found.targets, *((found.dialed,) if found.dialed is not None else ())}
    ends = (flow["destination"], flow.get("service") or {})
    return any((end.get("address"), port) in wanted for end in ends for port in (end.get("port", 0), 0))


def compare(found: Trace, flows: list[Object]) -> str:
    """Where the last flow that was seen differs from what the objects say; empty if it does not."""
    from alcove.network.trace import DROPPED, FORWARDED

    if not flows or found.verdict not in (FORWARDED, DROPPED) or flows[0]["verdict"] == found.verdict:
        return ""
    return (
        f"the objects say {found.verdict}, but the last packets were {flows[0]['verdict']} on {flows[0]['node']}: "
        "the objects have changed since, or the node has not applied them"
    )


class FollowedPacket(Struct, frozen=True):
    """A real packet: what came back, and the flows that nodes have of it."""

    sent: Object
    flows: list[Object]

    @property
    def verdict(self) -> str:
        """Empty if nothing is known of it."""
        if self.sent.get("reply") in ("accepted", "refused", "answered"):
            return "forwarded"
        return "dropped" if any(flow["verdict"] == "dropped" for flow in self.flows) else ""

    def rows(self) -> list[tuple[str, str, str]]:
        port, reply = self.sent["sourcePort"], self.sent.get("reply", "")
        after = f", after {self.sent.get('milliseconds', 0.0)} ms" if reply else ""
        rows = [("live", reply or "no reply", f"a real packet from port {port}{after}")]
        for flow in self.flows:
            text = f"on {flow['node']}: {packets_of(flow)}"
            rows.append(("live", flow["verdict"], flow.get("message") or text))
        return rows


def follow(sent: Object, flows: list[Object]) -> FollowedPacket:
    """The packet by the flows of all nodes: its own have its port; of drops, which have none, the last ones."""
    from alcove.api import meta

    recent = time.time() - LIVE_SECONDS
    found = [
        flow
        for flow in flows
        if flow["source"].get("port") == sent["sourcePort"]
        or (flow["verdict"] == "dropped" and meta.parse_time(flow["end"]) >= recent)
    ]
    return FollowedPacket(sent, found)


def compare_live(found: Trace, followed: FollowedPacket) -> str:
    """Where the real packet differs from what the objects say; empty if it does not, or that cannot be said."""
    from alcove.network.trace import DROPPED, FORWARDED

    if not followed.verdict or found.verdict not in (FORWARDED, DROPPED) or followed.verdict == found.verdict:
        return ""
    return f"the objects say {found.verdict}, but a real packet was {followed.verdict}"


def packets_of(flow: Object) -> str:
    return f"{flow.get('packetsSent', 0)} packets sent, {flow.get('packetsReceived', 0)} received"


def _seen_rows(flows: list[Object], difference: str) -> list[tuple[str, str, str]]:
    from alcove.api.columns.base import age_of

    rows = []
    for verdict in ("forwarded", "dropped"):
        last = next((flow for flow in flows if flow["verdict"] == verdict), None)
        if last is not None:
            age = age_of(last["end"], time.time())
            why = f": {last['message']}" if last.get("message") else ""
            rows.append(("seen", verdict, f"{age} ago on {last['node']}, {packets_of(last)}{why}"))
    if not rows:
        rows.append(("seen", "", f"no such packets in the last {SEEN_SECONDS // 60} minutes"))
    return [*rows, ("difference", "no", difference)] if difference else rows
