"""Flows as log records of OTLP, by OpenTelemetry's own message types. Pure: no I/O.

Attributes that OpenTelemetry's semantic conventions name have those names, with `source.`, `destination.` or `service.` in front of
what belongs to one end; others begin with `alcove.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from alcove import __version__
from alcove.api.node_api import FlowEnd, FlowReport

EVENT_NAME = "alcove.flow"
SCOPE = "alcove.flows"
_NAMES = {"Pod": "k8s.pod.name", "Service": "k8s.service.name"}


def encode(node: str, flows: Iterable[FlowReport], now: float) -> bytes:
    """The body of a request that exports the flows."""
    resource = Resource(
        attributes=[_text("service.name", "alcove-agent"), _text("k8s.node.name", node)],
    )
    records = ScopeLogs(
        scope=InstrumentationScope(name=SCOPE, version=__version__),
        log_records=[record(flow, now) for flow in flows],
    )
    request = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=resource, scope_logs=[records])],
    )
    return bytes(request.SerializeToString())


def rejected(response: bytes) -> int:
    """How many records the collector has refused, by its response to a request that succeeded."""
    try:
        return int(ExportLogsServiceResponse.FromString(response).partial_success.rejected_log_records)
    except DecodeError:
        return 0


def record(flow: FlowReport, now: float) -> LogRecord:
    is_drop = flow.verdict == "dropped"
    return LogRecord(
        time_unix_nano=_nanoseconds(flow.end),
        observed_time_unix_nano=_nanoseconds(now),
        severity_number=(
            SeverityNumber.SEVERITY_NUMBER_WARN if is_drop else SeverityNumber.SEVERITY_NUMBER_INFO
        ),
        severity_text="WARN" if is_drop else "INFO",
        event_name=EVENT_NAME,
        body=AnyValue(string_value=flow.message or _summary(flow)),
        attributes=list(_attributes(flow)),
    )


def _attributes(flow: FlowReport) -> Iterator[KeyValue]:
    yield _text("alcove.tenant", flow.tenant)
    yield _text("alcove.network", flow.network)
    yield _text("alcove.flow.direction", flow.direction)
    yield _text("alcove.flow.verdict", flow.verdict)
    yield _number("alcove.flow.start_unix_nano", _nanoseconds(flow.start))
    yield _text("network.transport", flow.protocol.lower())
    yield from _end("source", flow.source)
    yield from _end("destination", flow.destination)
    if flow.service is not None:
        yield from _end("service", flow.service)
    for name, value in (
        ("alcove.flow.bytes_sent", flow.bytes_sent),
        ("alcove.flow.bytes_received", flow.bytes_received),
        ("alcove.flow.packets_sent", flow.packets_sent),
        ("alcove.flow.packets_received", flow.packets_received),
    ):
        yield _number(name, value)
    if flow.tcp_flags:
        yield _text("alcove.flow.tcp_flags", flow.tcp_flags)
    if flow.reason:
        yield _text("alcove.flow.reason", flow.reason)
    if flow.policies:
        yield _texts("alcove.flow.policies", [each.policy for each in flow.policies])
    if flow.lost:
        yield _number("alcove.flow.lost", flow.lost)


def _end(name: str, end: FlowEnd) -> Iterator[KeyValue]:
    if end.address:
        yield _text(f"{name}.address", end.address)
    if end.port:
        yield _number(f"{name}.port", end.port)
    if end.kind in _NAMES:
        yield _text(f"{name}.k8s.namespace.name", end.namespace)
        yield _text(f"{name}.{_NAMES[end.kind]}", end.name)


def _summary(flow: FlowReport) -> str:
    return f"{flow.protocol} {_place(flow.source)} to {_place(flow.destination)} {flow.verdict}"


def _place(end: FlowEnd) -> str:
    name = f"{end.namespace}/{end.name}" if end.name else end.address or "unknown"
    return f"{name} port {end.port}" if end.port else name


def _nanoseconds(seconds: float) -> int:
    return max(0, int(seconds * 1e9))


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _number(key: str, value: int) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(int_value=value))


def _texts(key: str, values: Sequence[str]) -> KeyValue:
    array = ArrayValue(values=[AnyValue(string_value=each) for each in values])
    return KeyValue(key=key, value=AnyValue(array_value=array))
