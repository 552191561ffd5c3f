"""Metrics: per controller, and of tenants only the few with most."""

import asyncio

from alcove.api.ids import TenantId
from alcove.client.keys import HOME, ObjectKey
from alcove.controllers.metrics import TENANTS_SHOWN, ControllerMetrics
from alcove.controllers.queue import WorkQueue


def text() -> str:
    async def scenario() -> str:
        metrics = ControllerMetrics()
        loop = metrics.loop("widget")
        loop.queue = WorkQueue(workers=64, processing_per_plane_max=2, processing_per_tenant_max=4)
        for tenant in range(50):
            for name in range(tenant):
                loop.queue.add(ObjectKey(HOME, TenantId(f"t{tenant}"), "default", str(name)))
        loop.observe("done", 0.002, 0.02)
        loop.observe("failed", 0.2, 3.0)
        loop.queue.add_after(ObjectKey(HOME, TenantId("x"), "", "later"), 60)
        message = metrics.text().decode()
        loop.queue.close()
        return message

    return asyncio.run(scenario())


def test_metrics_in_the_text_format() -> None:
    message = text()
    assert 'alcove_workqueue_depth{name="widget"} 1225.0' in message
    assert 'alcove_workqueue_delayed{name="widget"} 1.0' in message
    assert 'alcove_workqueue_retries_total{name="widget"} 1.0' in message
    assert 'alcove_controller_reconciles_total{name="widget",result="done"} 1.0' in message
    assert 'alcove_workqueue_work_duration_seconds_bucket{le="0.025",name="widget"} 1.0' in message


def test_of_tenants_only_those_with_most_are_shown() -> None:
    shown = [line for line in text().splitlines() if line.startswith("alcove_workqueue_tenant_depth{")]
    assert len(shown) == TENANTS_SHOWN
    assert 'alcove_workqueue_tenant_depth{tenant="t49"} 49.0' in shown


def test_a_loop_that_starts_again_takes_its_place() -> None:
    metrics = ControllerMetrics()
    metrics.loop("widget").observe("done", 0, 0)
    metrics.loop("widget")
    assert 'result="done"' not in metrics.text().decode()
