"""Two API servers on one etcd: what one acknowledged, the other shows at once."""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from alcove.api.ids import SYSTEM
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.cli.connection import load
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster
from alcove.testing.random_walk import RandomWalk
from alcove.testing.server import Caller, LocalServer, wait_until

pytestmark = pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Caller, Caller]]:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    with (
        EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster,
        LocalServer(one, *cluster.options()) as first,
    ):
        # One authority for both: a credential of one is good for the other.
        for name in ("ca.crt", "ca.key", "sa.key"):
            (other / "pki").mkdir(exist_ok=True)
            shutil.copy(one / "pki" / name, other / "pki" / name)
        with LocalServer(other, *cluster.options()) as second:
            yield first.system, second.system


def test_the_first_server_on_an_empty_etcd_starts(tmp_path: Path) -> None:
    with (
        EtcdCluster(tmp_path / "etcd") as cluster,
        LocalServer(tmp_path / "server", *cluster.options()) as server,
    ):
        assert server.system.get("/api/v1/namespaces/default").status == 200


def test_a_write_to_one_is_read_from_the_other(pair: tuple[Caller, Caller]) -> None:
    first, second = pair
    for number in range(50):
        name = f"seen-{number}"
        assert first.post(MAPS, {"metadata": {"name": name}, "data": {"v": "1"}}).status == 201
        assert second.get(f"{MAPS}/{name}").status == 200
        assert second.patch(f"{MAPS}/{name}", {"data": {"v": "2"}}).status == 200
        assert first.get(f"{MAPS}/{name}").json["data"] == {"v": "2"}
        assert second.delete(f"{MAPS}/{name}").status == 200
        assert first.get(f"{MAPS}/{name}").status == 404


def test_whichever_server_is_asked_the_answer_is_that_of_one(pair: tuple[Caller, Caller]) -> None:
    RandomWalk(pair, seed=3).run(60)


def test_rivals_lose_nothing(pair: tuple[Caller, Caller], tmp_path: Path) -> None:
    pair[0].post(MAPS, {"metadata": {"name": "counter"}, "data": {}})

    def patch(number: int) -> int:
        caller = Caller(pair[number % 2].kubeconfig)
        try:
            return caller.patch(f"{MAPS}/counter", {"data": {f"k{number}": "v"}}).status
        finally:
            caller.close()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(patch, range(30))) == {200}
    assert len(pair[1].get(f"{MAPS}/counter").json["data"]) == 30


def test_a_watch_on_one_reports_writes_to_the_other(pair: tuple[Caller, Caller]) -> None:
    first, second = pair
    since = second.get(MAPS).json["metadata"]["resourceVersion"]
    first.post(MAPS, {"metadata": {"name": "other"}})

    def is_reported() -> bool:
        body = second.get(f"{MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=1").body
        return b'"ADDED"' in body and b'"other"' in body

    wait_until(is_reported)


def as_node(admin: Caller, authority_of: Caller, name: str, directory: Path) -> Caller:
    """A node's agent at the server of `admin`."""
    now, user = time.time(), f"system:node:{name}"
    authority = CertificateAuthority.open(authority_of.kubeconfig.parent / "pki", now)
    made = authority.client(Subject(SYSTEM, user, ("system:nodes",)), now, timedelta(hours=1))
    account = load(admin.kubeconfig)
    path = directory / "node.kubeconfig"
    certificate = KubeconfigCertificate(made.certificate_pem, made.key_pem)
    path.write_text(render(account.server, account.ca_pem, "system", user, certificate))
    return Caller(path)


def test_a_nodes_right_comes_and_goes_with_a_pod_that_the_other_server_wrote(
    pair: tuple[Caller, Caller], tmp_path: Path
) -> None:
    first, second = pair
    node = as_node(second, first, "n1", tmp_path)
    base = "/api/v1/namespaces/default"
    first.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    first.post(f"{base}/serviceaccounts", {"metadata": {"name": "default"}})
    assert first.post(f"{base}/secrets", {"metadata": {"name": "s"}}).status == 201
    volumes = [{"name": "v", "secret": {"secretName": "s"}}]
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    for number in range(20):
        name = f"p{number}"
        assert first.post(f"{base}/pods", {"metadata": {"name": name}, "spec": spec}).status == 201
        assert node.get(f"{base}/secrets/s").status == 200
        assert first.delete(f"{base}/pods/{name}?gracePeriodSeconds=0").status == 200
        assert node.get(f"{base}/secrets/s").status == 403
