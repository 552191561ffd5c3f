"""Pods whose addresses take long: they are waited for without a word, and noticed when they come."""

from __future__ import annotations

import time
from pathlib import Path

from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.server import LocalServer, wait_until

PODS = "/api/v1/tenants/acme/namespaces/default/pods"
LATE_SECONDS = 7.0


def test_an_address_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    """Nobody but this test makes endpoints here."""
    with (
        LocalServer(tmp_path / "server") as server,
        LocalAgent(node_kubeconfig(server, "n1"), tmp_path / "n1", "n1", "--hollow") as agent,
    ):
        server.make_tenant("acme")
        spec = {"nodeName": "n1", "containers": [{"name": "web", "image": "x"}]}
        made = server.system.post(PODS, {"metadata": {"name": "late"}, "spec": spec})
        assert made.status == 201, made.body
        time.sleep(LATE_SECONDS)
        assert "pod sync failed; retrying" not in agent.log, "giving up and trying again is work for nothing"
        endpoint = {
            "metadata": {"name": "late", "labels": {OWNER_LABEL: made.json["metadata"]["uid"]}},
            "spec": {
                "type": "simple", "status": "Provisioned", "pod": "acme/default/late", "vni": "77",
                "vpc": "v", "net": "s", "ip": "10.0.0.9", "prefix": "24", "mac": "02:00:00:00:00:01",
                "droplet": "n1",
            },
        }  # fmt: skip
        answer = server.system.post("/apis/mizar.com/v1/endpoints", endpoint)
        assert answer.status == 201, answer.body
        began = time.monotonic()
        wait_until(lambda: server.system.get(f"{PODS}/late").json["status"].get("podIP") == "10.0.0.9")
        wait_until(lambda: server.system.get(f"{PODS}/late").json["status"]["phase"] == "Running")
        assert time.monotonic() - began < 20.0, "not only when it would have given up"
