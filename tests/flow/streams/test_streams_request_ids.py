"""The id of a request reaches the node that serves it."""

import asyncio
import logging

import pytest

from alcove.component.logs import add_request_id
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import LocalServer

pytestmark = [pytest.mark.root]


async def test_a_nodes_log_has_the_id_of_the_clients_request(
    rig: NodeRig, server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.pod("acme", "traced", [{"name": "main", "command": ["sh", "-c", "echo hello; sleep 1000"]}])
    caplog.handler.addFilter(add_request_id)
    path = "/api/v1/namespaces/default/pods/traced/log"
    with caplog.at_level(logging.DEBUG, "alcove.agent.server.server"):
        answer = await asyncio.to_thread(server.as_tenant("acme").get, path, audit_id="support-17")
    caplog.handler.removeFilter(add_request_id)
    assert answer.status == 200 and answer.headers["audit-id"] == "support-17"
    served = [record for record in caplog.records if record.getMessage() == "serving request"]
    assert [vars(record).get("request_id") for record in served] == ["support-17"]
