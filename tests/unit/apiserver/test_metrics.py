from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.apiserver import metrics as metrics_module
from alcove.apiserver.audit import AuditEntry, AuditLog
from alcove.apiserver.flow import FlowController
from alcove.apiserver.identity import Identity
from alcove.apiserver.metrics import ApiServerMetrics, RequestKey

GET_POD = RequestKey("get", "", "v1", "pods", "", "resource")


async def samples(metrics: ApiServerMetrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    body, content_type = await metrics.render()
    assert content_type.startswith("text/plain")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def value(metrics: ApiServerMetrics, name: str, **labels: str) -> float:
    (found,) = [value for given, value in (await samples(metrics))[name] if labels.items() <= given.items()]
    return found


async def test_requests_are_counted_as_kubernetes_names_them() -> None:
    metrics = ApiServerMetrics()
    for code, seconds in ((200, 0.0004), (200, 0.03), (404, 0.0004)):
        series = metrics.requests(GET_POD)
        series.begin()
        series.finish(code, seconds)
    labels = {"verb": "GET", "group": "", "version": "v1", "resource": "pods", "scope": "resource"}
    assert await value(metrics, "apiserver_request_total", code="200", **labels) == 2
    assert await value(metrics, "apiserver_request_total", code="404", **labels) == 1
    durations = "apiserver_request_duration_seconds"
    assert await value(metrics, f"{durations}_count", **labels) == 3
    assert await value(metrics, f"{durations}_sum", **labels) == pytest.approx(0.0308)
    assert await value(metrics, f"{durations}_bucket", le="0.0005") == 2
    assert await value(metrics, f"{durations}_bucket", le="0.05") == 3


@pytest.mark.parametrize(
    ("verb", "shown"), [("create", "POST"), ("update", "PUT"), ("deletecollection", "DELETECOLLECTION")]
)
async def test_verbs_are_shown_as_kubernetes_does(verb: str, shown: str) -> None:
    metrics = ApiServerMetrics()
    series = metrics.requests(RequestKey(verb))
    series.begin()
    series.finish(200, 0.1)
    assert await value(metrics, "apiserver_request_total") == 1
    assert (await samples(metrics))["apiserver_request_total"][0][0]["verb"] == shown


async def test_watch_has_an_outcome_but_no_duration() -> None:
    metrics = ApiServerMetrics()
    series = metrics.requests(RequestKey("watch", resource="pods"))
    series.begin()
    series.finish(200, None)
    assert await value(metrics, "apiserver_request_total", verb="WATCH") == 1
    assert "apiserver_request_duration_seconds_count" not in (await samples(metrics))


async def test_requests_in_flight_are_counted_by_kind() -> None:
    metrics = ApiServerMetrics()
    reading, writing = metrics.requests(GET_POD), metrics.requests(RequestKey("create", resource="pods"))
    reading.begin()
    writing.begin()
    writing.begin()
    writing.finish(201, 0.001)
    name = "apiserver_current_inflight_requests"
    assert await value(metrics, name, request_kind="readOnly") == 1
    assert await value(metrics, name, request_kind="mutating") == 1


async def test_made_up_kinds_do_not_make_series_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "REQUEST_SERIES_MAX", 10)
    metrics = ApiServerMetrics()
    for number in range(100):
        series = metrics.requests(RequestKey("get", f"group{number}.example", "v1", "things"))
        series.begin()
        series.finish(200, 0.001)
    found = (await samples(metrics))["apiserver_request_total"]
    assert len(found) == 11
    assert await value(metrics, "apiserver_request_total", resource="other") == 90


async def test_only_the_busiest_tenants_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "TENANTS_KEPT", 10)
    metrics = ApiServerMetrics()
    for number in range(1_000):
        metrics.tenants.count(TenantId(f"idle-{number}"))
        metrics.tenants.count(TenantId("busy"))
    assert len(metrics.tenants.requests) <= 20
    assert metrics.tenants.top(1) == [("busy", 1_000)]
    assert await value(metrics, "alcove_tenant_requests_total", tenant="busy") == 1_000
    assert len((await samples(metrics))["alcove_tenant_requests_total"]) <= metrics_module.TENANTS_SHOWN


async def test_commits_are_measured() -> None:
    metrics = ApiServerMetrics()
    metrics.committed(0.0004, 16)
    metrics.committed(0.003, 1)
    assert await value(metrics, "alcove_store_commit_duration_seconds_count") == 2
    assert await value(metrics, "alcove_store_commit_transactions_sum") == 17
    assert await value(metrics, "alcove_store_commit_transactions_bucket", le="8.0") == 1


async def test_flow_audit_cache_and_watchers_are_read_when_asked(tmp_path: Path) -> None:
    metrics = ApiServerMetrics()
    flow, audit = FlowController(on_wait=metrics.flow_wait_seconds.observe), AuditLog(tmp_path / "audit")
    metrics.add_flow(flow)
    metrics.add_audit(audit)
    metrics.add_cache(lambda: {GroupResource("", "pods"): 7, GroupResource("apps", "deployments"): 2})
    metrics.add_watchers(lambda: 3)
    metrics.watch_events[GroupResource("", "pods")] += 5
    flow.try_acquire(TenantId("a"), 4)
    flow.rejected_late += 1
    who = Identity(SYSTEM, "admin")
    given: dict[str, Any] = {"received": 0.0, "seconds": 0.0, "verb": "get", "path": "/", "code": 200}
    audit.record(AuditEntry(tenant=SYSTEM, caller=who, identity=who, audit_id="id-1", **given))
    assert await value(metrics, "apiserver_flowcontrol_current_executing_seats") == 4
    assert await value(metrics, "apiserver_flowcontrol_current_inqueue_requests") == 0
    assert await value(metrics, "apiserver_flowcontrol_rejected_requests_total", reason="time-out") == 1
    assert await value(metrics, "apiserver_audit_event_total") == 1
    assert await value(metrics, "apiserver_audit_error_total") == 0
    assert await value(metrics, "apiserver_resource_objects", group="apps", resource="deployments") == 2
    assert await value(metrics, "apiserver_registered_watchers") == 3
    assert await value(metrics, "apiserver_watch_events_total", resource="pods") == 5
    assert await value(metrics, "process_resident_memory_bytes") > 0
    await audit.close()


async def test_openmetrics_is_served_to_who_asks() -> None:
    body, content_type = await ApiServerMetrics().render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


async def test_refused_requests_are_counted_by_tenant_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "TENANTS_KEPT", 10)
    metrics = ApiServerMetrics()
    for number in range(100):
        metrics.tenants.count_refused(TenantId(f"idle-{number}"), "rate")
        metrics.tenants.count_refused(TenantId("greedy"), "rate")
    metrics.tenants.count_refused(TenantId("greedy"), "quota")
    name = "alcove_tenant_refused_requests_total"
    assert await value(metrics, name, tenant="greedy", limit="rate") == 100
    assert len(metrics.tenants.refused) <= 20
    assert len((await samples(metrics))[name]) <= metrics_module.TENANTS_SHOWN
