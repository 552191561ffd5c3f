"""Flows as OpenTelemetry's log records."""

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from alcove.agent.network.otlp_records import encode, rejected
from alcove.api.node_api import FlowEnd, FlowPolicy, FlowReport

DROP = FlowReport(
    tenant="red",
    network="own",
    direction="egress",
    verdict="dropped",
    protocol="TCP",
    source=FlowEnd("10.0.0.5", 0, "Pod", "default", "web"),
    destination=FlowEnd("10.0.0.9", 5432),
    service=FlowEnd("10.96.0.7", 80, "Service", "db", "sql"),
    start=1_700_000_000.0,
    end=1_700_000_100.0,
    packets_sent=3,
    reason="PolicyEgress",
    message="denied by NetworkPolicy default/x",
    policies=(FlowPolicy("egress", "default/x", False),),
    lost=7,
)


def test_a_record_has_the_names_of_both_ends_and_the_policy() -> None:
    [logs] = ExportLogsServiceRequest.FromString(encode("n1", [DROP], 1_700_000_200.0)).resource_logs
    assert {each.key: each.value.string_value for each in logs.resource.attributes} == {
        "service.name": "alcove-agent", "k8s.node.name": "n1",
    }  # fmt: skip
    [record] = logs.scope_logs[0].log_records
    found = {each.key: each.value for each in record.attributes}
    assert found["alcove.tenant"].string_value == "red"
    assert found["source.k8s.pod.name"].string_value == "web"
    assert found["service.k8s.service.name"].string_value == "sql"
    assert (found["destination.address"].string_value, found["destination.port"].int_value) == (
        "10.0.0.9",
        5432,
    )
    assert "destination.k8s.pod.name" not in found and "source.port" not in found
    assert (found["alcove.flow.packets_sent"].int_value, found["alcove.flow.lost"].int_value) == (3, 7)
    assert [each.string_value for each in found["alcove.flow.policies"].array_value.values] == ["default/x"]
    assert (record.severity_text, record.body.string_value) == ("WARN", "denied by NetworkPolicy default/x")
    assert (record.event_name, record.time_unix_nano) == ("alcove.flow", 1_700_000_100_000_000_000)


def test_a_response_says_how_many_records_were_refused() -> None:
    partial = ExportLogsPartialSuccess(rejected_log_records=2, error_message="too old")
    assert rejected(ExportLogsServiceResponse(partial_success=partial).SerializeToString()) == 2
    assert rejected(b"") == rejected(b"<html>") == 0
