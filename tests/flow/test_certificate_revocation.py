"""A revoked client certificate is refused at once: for new connections, open ones, and running watches."""

import base64
import http.client
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from alcove.testing.server import Caller, LocalServer

SECONDS_MAX = 30.0
"""A watch goes on for minutes otherwise."""
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("server")) as running:
        yield running


def revoke(server: LocalServer, *arguments: str) -> str:
    command = [sys.executable, "-m", "alcove.processes.main", "tenant", "revoke", *arguments]
    command += ["--kubeconfig", str(server.admin_kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    return done.stdout + done.stderr


def serial_of(caller: Caller) -> str:
    [user] = yaml.safe_load(caller.kubeconfig.read_text())["users"]
    data = base64.b64decode(user["user"]["client-certificate-data"])
    return f"{x509.load_pem_x509_certificate(data).serial_number:X}"


def fresh(caller: Caller) -> Caller:
    """The same credential on a new connection."""
    return Caller(caller.kubeconfig)


class OpenWatch:
    def __init__(self, server: LocalServer, caller: Caller) -> None:
        tls = ssl.create_default_context(cafile=str(server.directory / "pki" / "ca.crt"))
        tls.load_cert_chain(caller.kubeconfig.with_suffix(".pem"))
        self._connection = http.client.HTTPSConnection(*server.address, context=tls, timeout=2 * SECONDS_MAX)
        self._connection.request("GET", f"{MAPS}?watch=true")
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200

    def seconds_until_closed(self) -> float:
        began = time.monotonic()
        try:
            while self._answer.read1(65536):
                pass
        except (OSError, http.client.HTTPException):
            pass
        return time.monotonic() - began


def test_a_tenants_certificates_end_on_open_connections_and_watches(server: LocalServer) -> None:
    acme, other = server.make_tenant("acme"), server.make_tenant("other")
    assert acme.get(MAPS).status == other.get(MAPS).status == 200
    watch, unaffected = OpenWatch(server, acme), other.get(MAPS)
    change = {"spec": {"revokedCertificates": [{"issuedBefore": "2999-01-01T00:00:00Z"}]}}
    assert server.system.patch("/api/v1/tenants/acme", change).status == 200
    assert watch.seconds_until_closed() < SECONDS_MAX
    for caller in (acme, fresh(acme)):
        answer = caller.get(MAPS)
        assert answer.status == 401 and "revoked" in answer.json["message"]
    assert other.get(MAPS).status == unaffected.status == 200


def test_one_users_certificates_are_revoked_and_the_next_one_works(server: LocalServer) -> None:
    admin = server.make_tenant("users")
    ann = server.as_tenant("users", "ann")
    assert ann.get(MAPS).status == 403
    assert "certificates of ann revoked" in revoke(server, "users", "--user", "ann")
    assert fresh(ann).get(MAPS).status == 401 and admin.get(MAPS).status == 200
    ann.kubeconfig.unlink()
    ann.kubeconfig.with_suffix(".pem").unlink()
    server.as_tenant("users", "ann")
    assert fresh(ann).get(MAPS).status == 403


def test_one_certificate_is_revoked_by_its_serial_number(server: LocalServer) -> None:
    admin = server.make_tenant("serials")
    ann = server.as_tenant("serials", "ann")
    revoke(server, "serials", "--serial", serial_of(ann))
    assert fresh(ann).get(MAPS).status == 401 and admin.get(MAPS).status == 200


def test_a_revocation_outlives_a_restart_and_tenants_cannot_undo_it(tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        acme = server.make_tenant("acme")
        ann = server.as_tenant("acme", "ann")
        revoke(server, "acme", "--user", "ann")
        assert acme.patch("/api/v1/tenants/acme", {"spec": {"revokedCertificates": []}}).status == 403
        server.stop()
        server.start()
        assert fresh(ann).get(MAPS).status == 401


def test_a_nodes_certificate_is_revoked_and_ring0_is_not_cut_off_by_mistake(server: LocalServer) -> None:
    node = server.as_node("n1")
    assert node.get("/api/v1/nodes/n1").status == 404
    assert "use --user or --serial" in revoke(server, "system")
    revoke(server, "system", "--user", "system:node:n1")
    assert fresh(node).get("/api/v1/nodes/n1").status == 401
    assert server.system.get("/api/v1/nodes").status == 200


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"user": "ann"},
        {"serialNumber": "xyz"},
        {"serialNumber": "AB", "issuedBefore": "2026-01-01T00:00:00Z"},
        {"serialNumber": "AB", "user": "ann"},
        {"issuedBefore": "yesterday"},
    ],
)
def test_an_entry_that_revokes_nothing_is_refused(server: LocalServer, entry: dict[str, str]) -> None:
    change = {"spec": {"revokedCertificates": [entry]}}
    assert server.system.patch("/api/v1/tenants/system", change).status in (400, 422)
