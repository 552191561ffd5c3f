"""Which API servers can be planes."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from alcove.api import meta
from alcove.api.errors import NotFound
from alcove.api.objects import Object
from alcove.cli.connection import CliConnection
from alcove.cli.errors import CliError
from alcove.cli.foreign import preparation

NOW = 1_700_000_000.0


class Answers:
    """A connection that gives one answer."""

    def __init__(self, answer: Callable[[str], Object]) -> None:
        self._answer = answer

    def request(self, _method: str, path: str, *_more: Any) -> Object:
        return self._answer(path)


def connection(answer: Callable[[str], Object]) -> CliConnection:
    return cast(CliConnection, Answers(answer))


@pytest.mark.parametrize(("major", "minor"), [("1", "33"), ("1", "37+"), ("2", "0")])
def test_versions_that_are_new_enough(major: str, minor: str) -> None:
    preparation.check_version({"major": major, "minor": minor})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ({"major": "1", "minor": "32", "gitVersion": "v1.32.1"}, "v1.32.1; 1.33 or newer"),
        ({"major": "1", "minor": "9", "gitVersion": "v1.9"}, "1.33 or newer"),
        ({}, "does not say"),
        ({"major": "one", "minor": "34"}, "does not say"),
    ],
)
def test_versions_that_are_not(version: dict[str, str], expected: str) -> None:
    with pytest.raises(CliError, match=expected):
        preparation.check_version(version)


def test_the_credential_is_an_administrators() -> None:
    preparation.check_rights(connection(lambda _path: {"status": {"allowed": True}}))
    for status in ({"allowed": False}, {}, {"allowed": "yes"}):
        with pytest.raises(CliError, match="cluster-admin"):
            preparation.check_rights(connection(lambda _path, status=status: {"status": status}))  # type: ignore[misc]


def lease(renewed: float, holder: str = "h") -> Object:
    times = {"renewTime": meta.format_time(renewed), "leaseDurationSeconds": 15}
    return {"spec": {"holderIdentity": holder, **times}}


def test_controllers_of_the_planes_own_are_noticed_while_they_run() -> None:
    def only(name: str, found: Object) -> CliConnection:
        def answer(path: str) -> Object:
            if not path.endswith(name):
                raise NotFound("not there")
            return found

        return connection(answer)

    for name in preparation.OWN_PROCESSES:
        with pytest.raises(CliError, match=f"a {name} is running"):
            preparation.check_own_processes(only(name, lease(NOW - 3)), NOW)
        preparation.check_own_processes(only(name, lease(NOW - 60)), NOW)
        preparation.check_own_processes(only(name, lease(NOW, holder="")), NOW)
        preparation.check_own_processes(only(name, {}), NOW)


def test_services_need_addresses_of_ipv4() -> None:
    ranges = preparation.service_ranges(
        connection(lambda _path: {"spec": {"cidrs": ["fd00::/108", "10.96.0.0/12"]}})
    )
    assert list(map(str, ranges)) == ["10.96.0.0/12"]
    with pytest.raises(CliError, match="IPv4"):
        preparation.service_ranges(connection(lambda _path: {"spec": {"cidrs": ["fd00::/108"]}}))


def test_only_what_ring0_has_made_is_removed() -> None:
    def node(name: str, version: str) -> Object:
        return {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}}

    nodes = [node("n1", "v1.37.0+alcove"), node("n2", "v1.37.0+alcove"), node("n3", "v1.37.0")]
    finalizers = ["theirs", preparation.FINALIZER]
    networks = [{"metadata": {"name": "default", "finalizers": finalizers}}, {"metadata": {"name": "new"}}]
    sent: list[tuple[str, str, Any]] = []

    class Recording:
        def request(self, method: str, path: str, body: Any = None) -> Object:
            if method == "GET":
                return {"items": nodes if path == preparation.NODES else networks}
            sent.append((method, path, body))
            return {}

    preparation.clean_up(cast(CliConnection, Recording()), {"n1", "n3"})
    changed = {"metadata": {"name": "default", "finalizers": ["theirs"]}}
    assert sent == [
        ("DELETE", "/api/v1/nodes/n1", None),
        ("PUT", f"{preparation.NETWORKS}/default", changed),
    ]
