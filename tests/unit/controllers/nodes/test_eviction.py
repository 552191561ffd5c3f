"""When pods leave a tainted node."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.nodes.eviction import (
    IMMEDIATELY,
    NEVER,
    NoExecuteTaint,
    eviction_time,
    read,
)

LOST, BAD = NoExecuteTaint("lost", "", 100.0), NoExecuteTaint("bad", "very", 200.0)


def tolerates(key: str = "", seconds: int | None = None, **more: str) -> Object:
    found: Object = {"key": key, "operator": "Exists", **more}
    return found | ({"tolerationSeconds": seconds} if seconds is not None else {})


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        ([], [], NEVER),
        ([], [LOST], IMMEDIATELY),
        ([tolerates("lost")], [LOST], NEVER),
        ([tolerates("lost", 300)], [LOST], 400.0),
        ([tolerates("lost", 0)], [LOST], IMMEDIATELY),
        ([tolerates("lost", -5)], [LOST], IMMEDIATELY),
        ([tolerates("lost", 300)], [LOST, BAD], IMMEDIATELY),
        ([tolerates("lost", 300), tolerates("bad", 10)], [LOST, BAD], 210.0),
        ([tolerates("lost", 30), tolerates("lost")], [LOST], 130.0),  # The first that covers it counts.
        ([tolerates()], [LOST, BAD], NEVER),
        ([tolerates("lost", effect="NoSchedule")], [LOST], IMMEDIATELY),
        ([tolerates("lost", 7, effect="NoExecute")], [LOST], 107.0),
        ([{"key": "bad", "value": "very", "tolerationSeconds": 5}], [BAD], 205.0),
        ([{"key": "bad", "value": "little"}], [BAD], IMMEDIATELY),
    ],
)
def test_leaves_at(tolerations: list[Object], taints: list[NoExecuteTaint], expected: float) -> None:
    assert eviction_time({"spec": {"tolerations": tolerations}}, taints) == expected


def test_since_when_a_taint_counts() -> None:
    dated = {"key": "dated", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}
    seen = {"key": "seen", "value": "v", "effect": "NoExecute"}
    node = {"spec": {"taints": [dated, seen, {"key": "other", "effect": "NoSchedule"}]}}
    first = read(node, (), 500.0)
    assert first == (NoExecuteTaint("dated", "", 100.0), NoExecuteTaint("seen", "v", 500.0))
    assert read(node, first, 600.0) == first
    assert read({"spec": {}}, first, 700.0) == ()
