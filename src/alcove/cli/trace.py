"""`alcove trace`: what happens to a packet between a pod and something else, from the objects and from the kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TenantOption

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession
    from alcove.client.resources import Resource
    from alcove.network.trace import TenantObjects, Trace, TraceRequest

SEEN_SECONDS = 600
"""How far back flows are looked for."""
HEADS = ("STEP", "RESULT", "WHAT HAPPENS")


class TracedProtocol(StrEnum):
    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


def trace(
    pod: Annotated[str, typer.Argument(help="The pod that sends: NAME, or NAMESPACE/NAME.")],
    to: Annotated[
        str, typer.Option("--to", help="Pod or service (NAME, or NAMESPACE/NAME), or IP address, to send to.")
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; not needed for a service with one port.")
    ] = 0,
    protocol: Annotated[
        TracedProtocol, typer.Option("--protocol", case_sensitive=False, help="Protocol.")
    ] = TracedProtocol.TCP,
    tenant: TenantOption = "",
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Say step by step what should happen to a packet, and what nodes have seen of such packets."""
    from alcove.cli.output import show_rows, to_json
    from alcove.cli.session import CliSession
    from alcove.network.trace import TraceFailure, TraceRequest
    from alcove.network.trace import trace as traced

    with exit_on_error():
        session = CliSession(via)
        namespace, _, name = pod.rpartition("/")
        request = TraceRequest((namespace or "default", name), to, port, protocol)
        try:
            found = traced(read(session, tenant), request)
        except TraceFailure as error:
            raise CliError(str(error), ExitCode.NOT_FOUND) from error
        kernel = tried(session, tenant, request, found)
        flows = seen(session, tenant, request, found)
        difference = compare_kernel(found, kernel) or compare(found, flows)
        if form is OutputFormat.JSON:
            steps = [
                {"step": each.stage, "passes": each.passes, "message": each.message} for each in found.steps
            ]
            typer.echo(
                to_json(
                    {
                        "verdict": found.verdict,
                        "steps": steps,
                        "kernel": kernel,
                        "flows": flows,
                        "difference": difference,
                    }
                )
            )
            return
        rows = [(each.stage, "ok" if each.passes else "DROP", each.message) for each in found.steps]
        rows += [("verdict", "", found.verdict), *_kernel_rows(kernel), *_seen_rows(flows, difference)]
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


def tried(session: CliSession, tenant: str, request: TraceRequest, found: Trace) -> Object:
    """What the kernel of the pod's node does with such a packet; empty if it sends none, or that is not known."""
    from alcove.api.errors import ApiError
    from alcove.client.resources import TRACES

    if found.dialed is None:
        return {}
    within = f"/tenants/{tenant}" if tenant else ""
    path = f"{TRACES.root}{within}/namespaces/{request.source[0]}/{TRACES.resource}"
    address, port = found.dialed
    spec = {"pod": request.source[1], "address": address, "port": port, "protocol": str(request.protocol)}
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
    steps = [step for step in found.steps if not (kernel.get("nextNode") and step.stage == "ingress policy")]
    should_pass, passes = all(step.passes for step in steps), kernel["verdict"] == "forwarded"
    if should_pass == passes:
        return ""
    return f"the objects say {'forwarded' if should_pass else 'dropped'}, but the kernel of {kernel['node']} does not"


def _kernel_rows(kernel: Object) -> list[tuple[str, str, str]]:
    from alcove.api.columns.sight import end_text

    if "verdict" not in kernel:
        return [("kernel", "", kernel["message"])] if kernel else []
    where = f"on {kernel['node']}"
    if kernel["verdict"] == "forwarded":
        target = end_text(kernel["destination"])
        way = f", by the tunnel to {kernel['nextNode']}" if kernel.get("nextNode") else ""
        return [("kernel", "forwarded", f"{where} to {target}{way}")]
    return [("kernel", "dropped", f"{where}: {kernel.get('message', '')}")]


def seen(session: CliSession, tenant: str, request: TraceRequest, found: Trace) -> list[Object]:
    """Flows of the pod to this destination that nodes have seen lately, the newest first."""
    from alcove.cli.flows import to_matcher
    from alcove.client.resources import FLOWS

    query = {"pod": request.source[1], "sinceSeconds": str(SEEN_SECONDS), "limit": "10000"}
    is_to = to_matcher(
        request.to
        if "/" in request.to or "." in request.to or ":" in request.to
        else f"{request.source[0]}/{request.to}"
    )
    return [
        flow
        for flow in list_of(session, tenant, FLOWS, query)
        if (flow["source"].get("namespace"), flow["source"].get("name")) == request.source
        and flow["protocol"] == request.protocol
        and is_to(flow)
        and _has_port(flow, request.port)
    ]


def _has_port(flow: Object, port: int) -> bool:
    ends = (flow["destination"], flow.get("service") or {})
    return not port or any(end.get("port") == port for end in ends)


def compare(found: Trace, flows: list[Object]) -> str:
    """Where the last flow that was seen differs from what the objects say; empty if it does not."""
    from alcove.network.trace import DROPPED, FORWARDED

    if not flows or found.verdict not in (FORWARDED, DROPPED) or flows[0]["verdict"] == found.verdict:
        return ""
    return (
        f"the objects say {found.verdict}, but the last packets were {flows[0]['verdict']} on {flows[0]['node']}: "
        "the objects have changed since, or the node has not applied them"
    )


def _seen_rows(flows: list[Object], difference: str) -> list[tuple[str, str, str]]:
    import time

    from alcove.api.columns.base import age_of

    rows = []
    for verdict in ("forwarded", "dropped"):
        last = next((flow for flow in flows if flow["verdict"] == verdict), None)
        if last is not None:
            age = age_of(last["end"], time.time())
            packets = f"{last.get('packetsSent', 0)} packets sent, {last.get('packetsReceived', 0)} received"
            why = f": {last['message']}" if last.get("message") else ""
            rows.append(("seen", verdict, f"{age} ago on {last['node']}, {packets}{why}"))
    if not rows:
        rows.append(("seen", "", f"no such packets in the last {SEEN_SECONDS // 60} minutes"))
    return [*rows, ("difference", "no", difference)] if difference else rows
