"""Requests to a kubelet, as kube-apiserver sends them."""

import pytest

from alcove.agent.server.kubelet_paths import parsed
from alcove.agent.server.requests import NodeRequest


def request(path: str, **query: list[str]) -> NodeRequest:
    return NodeRequest("POST", tuple(path.strip("/").split("/")), query, {})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/containerLogs/ns/web/main", ("ns", "web", "", "log", "main")),
        ("/exec/ns/web/main", ("ns", "web", "", "exec", "main")),
        ("/exec/ns/web/uid-1/main", ("ns", "web", "uid-1", "exec", "main")),
        ("/attach/ns/web/main", ("ns", "web", "", "attach", "main")),
        ("/portForward/ns/web", ("ns", "web", "", "portforward", "")),
        ("/portForward/ns/web/uid-1", ("ns", "web", "uid-1", "portforward", "")),
    ],
)
def test_pods_and_verbs(path: str, expected: tuple[str, ...]) -> None:
    asked = parsed(request(path))
    assert asked is not None
    assert (asked.namespace, asked.pod, asked.uid, asked.verb, asked.request.first("container")) == expected


def test_streams_have_their_names_in_the_kubernetes_api() -> None:
    asked = parsed(request("/exec/ns/web/main", input=["1"], output=["1"], error=["1"], command=["ls", "-l"]))
    assert asked is not None
    expected = {
        "stdin": ["1"],
        "stdout": ["1"],
        "stderr": ["1"],
        "command": ["ls", "-l"],
        "container": ["main"],
    }
    assert asked.request.query == expected


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/pods",
        "/run/ns/web/main",
        "/exec/ns/web",
        "/stats/summary",
        "/pods/acme/acme/ns/web/uid/exec",
        "/usage",
    ],
)
def test_other_paths_are_no_kubelets(path: str) -> None:
    assert parsed(request(path)) is None
