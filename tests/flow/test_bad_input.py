"""What no well-meaning client sends: each gets a Status with the right code, and the server lives on."""

import re
import socket
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest

from alcove.testing.server import Caller, LocalServer

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("body", "content_type", "code", "message"),
    [
        (b"{not json", "application/json", 400, "not valid JSON"),
        (b"", "application/json", 400, "not valid JSON"),
        (b"[]", "application/json", 400, "must be one ConfigMap object"),
        (b'"text"', "application/json", 400, "must be one ConfigMap object"),
        (b'{"metadata":{"name":5}}', "application/json", 400, "cannot unmarshal number"),
        (b'{"metadata":[]}', "application/json", 400, "cannot"),
        (b'{"data":{"a":1},"metadata":{"name":"x"}}', "application/json", 400, "cannot unmarshal number"),
        (b'{"metadata":{"name":"x"},"kind":["a"]}', "application/json", 400, "must be strings"),
        (b"a: [1", "application/yaml", 400, "not valid YAML"),
        (b"&a [*a]", "application/yaml", 400, ""),
        (b"{}", "text/html", 415, "application/json"),
        (b"{}", "application/vnd.kubernetes.protobuf", 400, "k8s"),
        (b"[" * 100_000 + b"]" * 100_000, "application/json", 400, ""),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "application/json", 400, ""),
        (b'{"metadata":{"name":"x","generation":1e400}}', "application/json", 400, ""),
        (b'{"metadata":{"name":"\xff"}}', "application/json", 400, ""),
    ],
)
def test_bodies(tenant: Caller, body: bytes, content_type: str, code: int, message: str) -> None:
    answer = tenant.request("POST", MAPS, body, content_type=content_type)
    assert answer.status == code, answer.body
    status = answer.json
    assert status["kind"] == "Status" and status["status"] == "Failure" and status["code"] == code
    assert message in status["message"]


def test_a_huge_body_is_refused_before_it_is_read(tenant: Caller) -> None:
    body = b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    answer = tenant.request("POST", MAPS, body)
    assert answer.status == 413 and answer.json["reason"] == "RequestEntityTooLarge"
    assert tenant.get(MAPS).status == 200


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nonsense", 403),
        ("GET", "/api/v1/nonsense", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/nonsense/v1/things", 404),
        ("GET", "/api/v1/pods/x", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", f"{MAPS}/x/status", 404),
        ("POST", f"{MAPS}/x", 405),
        ("POST", "/api/v1/configmaps", 405),
        ("PUT", MAPS, 405),
        ("DELETE", "/version", 405),
        ("OPTIONS", MAPS, 405),
        ("GET", "/api/v1/namespaces/%2e%2e/pods", 400),
        ("GET", "/api/v1/namespaces/a%00b/pods", 400),
    ],
)
def test_paths(tenant: Caller, method: str, path: str, code: int) -> None:
    answer = tenant.request(method, path)
    assert answer.status == code, (path, answer.body)
    assert answer.json["kind"] == "Status"


def test_patches_that_do_not_fit(tenant: Caller) -> None:
    tenant.post(MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    path = f"{MAPS}/a"
    assert tenant.request("PATCH", path, b"{}", content_type="application/json").status == 415
    assert (
        tenant.patch(path, [{"op": "test", "path": "/data/k", "value": "x"}], "json-patch+json").status == 422
    )
    assert tenant.patch(path, {"op": "add"}, "json-patch+json").status == 400
    assert tenant.patch(path, {"metadata": {"name": "b"}}).status == 400
    assert tenant.patch(path, {"data": 5}).status == 400
    assert tenant.patch(f"{path}?force=true", {"data": {}}).status == 422
    assert tenant.get(path).json["data"] == {"k": "v"}


# Credentials


def issue(server: LocalServer, directory: Any, **subject: Any) -> Caller:
    """A caller with a certificate of the server's own authority, made with its key."""
    from alcove.apiserver.auth.certificates import CertificateAuthority, IssuedCertificate
    from alcove.apiserver.auth.subjects import Subject
    from alcove.cli.connection import load
    from alcove.cli.kubeconfig import KubeconfigCertificate, render

    authority = CertificateAuthority.open(server.directory / "pki", time.time())
    age = subject.pop("age_seconds", 0)
    made: IssuedCertificate = authority.client(Subject(**subject), time.time() - age, timedelta(hours=1))
    user = load(server.admin_kubeconfig)
    path = directory / "made.kubeconfig"
    path.write_text(
        render(
            user.server,
            user.ca_pem,
            subject["tenant"],
            subject["user"],
            KubeconfigCertificate(made.certificate_pem, made.key_pem),
        )
    )
    return Caller(path)


def test_an_expired_certificate_gets_a_clean_401(server: LocalServer, tmp_path: Any) -> None:
    expired = issue(
        server, tmp_path, tenant="system", user="admin", groups=("system:masters",), age_seconds=7200
    )
    answer = expired.get("/api/v1/namespaces")
    assert answer.status == 401 and answer.json["reason"] == "Unauthorized"
    assert "expired" in answer.json["message"]


def test_no_credentials_and_forged_tokens(server: LocalServer) -> None:
    assert server.anonymous().get("/api/v1/namespaces").status == 401
    claims = {
        "iss": "https://x/tenants/system",
        "sub": "system:serviceaccount:kube-system:admin",
        "exp": time.time() + 60,
    }
    forged = [
        "nonsense",
        "a.b.c",
        jwt.encode(claims, "k" * 32, algorithm="HS256"),
        jwt.encode(claims, "", algorithm="none"),
        "x" * 100_000,
    ]
    for token in forged:
        answer = server.anonymous(token).get("/api/v1/namespaces")
        assert answer.status in (401, 431), (token[:20], answer.body)
    assert server.anonymous().get("/healthz").body == b"ok"
    assert server.anonymous().get("/version").status == 200


def test_a_token_dies_with_its_account(server: LocalServer, tenant: Caller) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    tenant.post(accounts, {"metadata": {"name": "robot"}})
    token = tenant.post(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}}).json["status"][
        "token"
    ]
    robot = server.anonymous(token)
    whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = robot.post(whoami, body)
    assert answer.status == 201, answer.body
    assert answer.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    assert robot.get(MAPS).status == 403
    tenant.delete(f"{accounts}/robot")
    assert robot.post(whoami, body).status == 401


# Below HTTP


def is_whole(received: bytes) -> bool:
    """Whether it is a response with its body: after an error the server reads on for seconds, so that the client can read
    what it said."""
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return length is not None and len(body) >= int(length[1])


def raw(server: LocalServer, data: bytes, is_enough: Callable[[bytes], bool]) -> bytes:
    """What is received until it is enough, or the server closes the connection."""
    host, port = server.address
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=60) as plain,
        context.wrap_socket(plain) as tls,
    ):
        tls.sendall(data)
        received = b""
        try:
            while not is_enough(received) and (part := tls.recv(65536)):
                received += part
        except (TimeoutError, ssl.SSLError, ConnectionError):
            pass
        return received


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", b"400"),
        (b"GET /version HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b"431"),
        (b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    ],
)
def test_malformed_http(server: LocalServer, data: bytes, status: bytes) -> None:
    answer = raw(server, data, is_whole)
    assert answer.split(b" ", 2)[1] == status, answer[:300]
    assert b'"kind":"Status"' in answer
    assert server.anonymous().get("/healthz").status == 200


def test_pipelined_requests_are_answered_in_order(server: LocalServer) -> None:
    one = b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = raw(server, one * 20 + last, lambda _received: False)
    assert answer.count(b"gitVersion") == 20 and answer.endswith(b"ok")


def test_no_secret_is_logged(server: LocalServer, tenant: Caller) -> None:
    tenant.post(
        "/api/v1/namespaces/default/secrets",
        {"metadata": {"name": "s"}, "stringData": {"p": "never-log-this"}},
    )
    tenant.request("POST", "/api/v1/namespaces/default/secrets", b'{"stringData":{"p":"never-log-this"')
    assert "never-log-this" not in server.log
