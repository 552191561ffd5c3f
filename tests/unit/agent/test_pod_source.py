"""Pods are dispatched to the nodes they are bound to; with one node, only its pods are watched."""

from __future__ import annotations

from functools import partial

import pytest

from alcove.agent.pod_source import PodSource
from alcove.api.ids import Revision
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.resources import PODS


def pod(node: str, revision: int) -> Object:
    metadata = {"name": "p", "uid": "u", "tenant": "acme", "namespace": "n", "resourceVersion": str(revision)}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": []}}


async def test_one_node_asks_for_its_own_pods_only() -> None:
    planes = Planes()
    PodSource(planes, {"n1": lambda _change: None})
    assert [mirror.selection for mirror in planes.mirrors()] == [
        ListSelection(PODS, fields="spec.nodeName=n1"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "n1", [("n1", ChangeType.ADDED)]),
        (None, "", []),
        (None, "elsewhere", []),
        ("", "n1", [("n1", ChangeType.UPDATED)]),
        ("n1", "n1", [("n1", ChangeType.UPDATED)]),
        ("n1", "n2", [("n1", ChangeType.DELETED), ("n2", ChangeType.UPDATED)]),
        ("n1", None, [("n1", ChangeType.DELETED)]),
    ],
)
async def test_many_nodes_hear_of_what_is_theirs(
    before: str | None, after: str | None, expected: list[tuple[str, ChangeType]]
) -> None:
    heard: list[tuple[str, ChangeType]] = []

    def offer(node: str, change: ObjectChange) -> None:
        heard.append((node, change.kind))

    planes = Planes()
    PodSource(planes, {name: partial(offer, name) for name in ("n1", "n2")})
    [mirror] = planes.mirrors()
    assert mirror.selection == ListSelection(PODS)
    part = mirror.add_plane(HOME)
    if before is not None:
        part.put(pod(before, 1), Revision(1))
        heard.clear()
    if after is not None:
        part.put(pod(after, 2), Revision(2))
    elif before is not None:
        part.remove(pod(before, 2), Revision(2))
    assert heard == expected
