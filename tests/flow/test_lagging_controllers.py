"""Controllers behind a balancer of two API servers, one of which always lags behind: every tenant is completed."""

import shutil
from pathlib import Path

import pytest

from alcove.testing import etcd
from alcove.testing.cluster import tenant_is_ready
from alcove.testing.controlplane import LocalControllers
from alcove.testing.etcd import EtcdCluster
from alcove.testing.etcd_relay import EtcdRelay
from alcove.testing.failover import SHARED_KEYS
from alcove.testing.relay import Balancer
from alcove.testing.server import LocalServer, wait_until

TENANTS = [f"t{number}" for number in range(8)]
LATE_SECONDS = 0.1


def is_complete(server: LocalServer, tenant: str) -> bool:
    maps = f"/api/v1/tenants/{tenant}/namespaces/default/configmaps/kube-root-ca.crt"
    return tenant_is_ready(server, tenant) and server.system.get(maps).status == 200


@pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())
def test_no_tenant_is_left_incomplete(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with (
        EtcdCluster(tmp_path / "etcd") as cluster,
        LocalServer(one, *cluster.options()) as first,
        EtcdRelay(cluster.members[0].endpoint) as relay,
    ):
        (other / "pki").mkdir(parents=True)
        for name in SHARED_KEYS:
            shutil.copy(one / "pki" / name, other / "pki" / name)
        with (
            LocalServer(other, "--etcd", relay.endpoint) as second,
            Balancer([first.address, second.address]) as balancer,
        ):
            relay.event_seconds = LATE_SECONDS
            both = tmp_path / "both.kubeconfig"
            text = first.admin_kubeconfig.read_text()
            both.write_text(text.replace(f":{first.address[1]}/", f":{balancer.port}/"))
            with LocalControllers(first, tmp_path, kubeconfig=both):
                for tenant in TENANTS:
                    made = first.system.post("/api/v1/tenants", {"metadata": {"name": tenant}})
                    assert made.status == 201, made.body
                for tenant in TENANTS:
                    wait_until(lambda tenant=tenant: is_complete(first, tenant))
