"""What `up` decides before it changes anything: ports, nodes, and what a running cluster can no longer become."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.processes.machine.cluster import NODES_MAX, LocalCluster
from alcove.processes.machine.cluster_request import (
    PORT,
    ClusterNotUp,
    RequestedCluster,
    _may_be_hollow,
    decide,
)
from alcove.processes.machine.components import components
from alcove.processes.up import _degradation, explain
from alcove.testing.claims import free_port


def hollow(**more: object) -> RequestedCluster:
    given: dict[str, object] = {"name": "c", "hollow": True, **more}
    return RequestedCluster(**given)  # type: ignore[arg-type]


def saved(data: Path, **more: object) -> LocalCluster:
    given: dict[str, object] = {"data": data, "name": "c", "number": 7, "port": 1, "hollow": True, **more}
    made = LocalCluster(**given)  # type: ignore[arg-type]
    made.save()
    return made


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


def test_a_new_cluster_takes_the_usual_port_or_the_next_that_is_free(tmp_path: Path) -> None:
    made = decide(tmp_path, hollow(), False).cluster
    assert PORT <= made.port < PORT + 50
    with socket.socket() as other:
        other.bind(("127.0.0.1", made.port))
        other.listen()
        assert decide(tmp_path, hollow(), False).cluster.port > made.port


def test_what_was_asked_before_is_asked_again(tmp_path: Path) -> None:
    before = saved(
        tmp_path,
        nodes=3,
        port=free_port(),
        listen=("192.0.2.1",),
        insecure_registries=("192.0.2.2:5000",),
        usage_interval_seconds=7,
    )
    assert decide(tmp_path, hollow(), False).cluster == before
    assert decide(tmp_path, hollow(nodes=0), False).cluster.nodes == 0


def test_a_port_of_before_that_is_taken_is_not_changed_in_silence(tmp_path: Path, taken: int) -> None:
    saved(tmp_path, port=taken)
    with pytest.raises(ClusterNotUp, match=str(taken)):
        decide(tmp_path, hollow(), False)
    assert decide(tmp_path, hollow(), True).cluster.port == taken


@pytest.mark.parametrize(
    ("before", "wanted", "expected"),
    [
        ({}, {"port": 9}, "up on port 1"),
        ({"hollow": False}, {}, "real nodes"),
        ({}, {"nodes": NODES_MAX + 1}, str(NODES_MAX)),
    ],
)
def test_what_a_running_cluster_cannot_become(
    tmp_path: Path, before: dict[str, object], wanted: dict[str, object], expected: str
) -> None:
    saved(tmp_path, **before)
    with pytest.raises(ClusterNotUp, match=expected):
        decide(tmp_path, hollow(**wanted), True)


@pytest.mark.parametrize(
    ("number", "expected"), [(28, "free some space"), (30, "--data"), (13, "--data"), (5, "Input/output")]
)
def test_failures_of_the_machine_say_what_to_do(number: int, expected: str) -> None:
    message = explain(OSError(number, os.strerror(number), "/x/y"), Path("/x"))
    assert expected in message and "/x/y" in message


def test_a_node_that_is_less_than_promised_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = saved(tmp_path, hollow=False)
    node = asked.node(1)
    monkeypatch.setattr("shutil.which", lambda *_words, **_more: "/usr/bin/runsc")
    assert _degradation(asked, node, ["crun", "gvisor"]) == ""
    assert "gVisor" in _degradation(asked, node, ["crun"])
    assert "hollow" in _degradation(asked, node, ["hollow"])
    monkeypatch.setattr("shutil.which", lambda *_words, **_more: None)
    assert _degradation(asked, node, ["crun"]) == ""


@pytest.mark.parametrize(
    ("was_hollow", "is_up", "expected"),
    [(None, False, True), (False, False, True), (True, True, True), (False, True, False)],
)
def test_tenants_pods_that_run_do_not_become_hollow_by_one_failed_trial(
    tmp_path: Path, was_hollow: bool | None, is_up: bool, expected: bool
) -> None:
    before = None if was_hollow is None else saved(tmp_path, hollow_tenants=was_hollow)
    assert _may_be_hollow(before, is_up) is expected


def test_nodes_pretend_for_tenants_only_where_it_was_decided(tmp_path: Path) -> None:
    for is_so in (True, False):
        made = saved(tmp_path, hollow=False, hollow_tenants=is_so)
        assert ("--hollow-tenants" in components(made)[-1].arguments) is is_so
