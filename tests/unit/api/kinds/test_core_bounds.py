"""Bodies of megabytes: checking them takes time, and reports errors, in proportion to their size.

Nothing is timed here: each object is so large that anything quadratic would run into the suite's time
limit, or out of memory.
"""

from typing import Any

import pytest

from alcove.api.kinds.core import STRATEGIES
from alcove.api.kinds.metadata import validate_metadata
from alcove.api.objects import Object

MANY = 40_000
PODS = STRATEGIES["pods"]


def pod(**spec: Any) -> Object:
    made: Object = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    PODS.default(made)
    return made


def numbered(make: Any) -> list[Any]:
    return [make(number) for number in range(MANY)]


def spread(number: int) -> Object:
    return {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": "DoNotSchedule"}


def apparmor(number: int) -> str:
    return f"container.apparmor.security.beta.kubernetes.io/c{number}"


def keyed() -> Object:
    term = {
        "topologyKey": "k",
        "labelSelector": {},
        "matchLabelKeys": numbered(lambda number: f"a{number}"),
        "mismatchLabelKeys": numbered(lambda number: f"b{number}"),
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def claiming() -> Object:
    return pod(
        resourceClaims=numbered(lambda number: {"name": f"c{number}", "resourceClaimName": "x"}),
        containers=[
            {
                "name": "c",
                "image": "i",
                "resources": {"claims": numbered(lambda number: {"name": f"d{number}"})},
            }
        ],
    )


def annotated() -> Object:
    made = pod(containers=numbered(lambda number: {"name": f"x{number}", "image": "i"}))
    made["metadata"]["annotations"] = dict.fromkeys(numbered(apparmor), "unconfined")
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda: pod(topologySpreadConstraints=numbered(spread)),
        lambda: pod(affinity=keyed()),
        lambda: pod(volumes=numbered(lambda number: {"name": f"v{number}", "emptyDir": {}})),
        lambda: pod(containers=numbered(lambda _: {"name": "same", "image": ""})),
        claiming,
        annotated,
    ],
    ids=["spread", "label keys", "volumes", "containers", "claims", "annotations"],
)
def test_pods(make: Any) -> None:
    errors = PODS.validate(make())
    assert sum(len(error.body) for error in errors) < 2000 * MANY


def test_updates_of_pods() -> None:
    old = pod(tolerations=numbered(lambda number: {"key": f"k{number}", "operator": "Exists"}))
    new = pod(tolerations=numbered(lambda number: {"key": f"k{MANY - number}", "operator": "Exists"}))
    assert [error.field for error in PODS.validate_update(new, old)] == ["spec.tolerations"]


def test_services() -> None:
    made: Object = {
        "spec": {
            "ports": numbered(lambda number: {"name": f"p{number}", "port": 1 + number % 65535}),
            "ipFamilies": ["IPv4"] * MANY,
            "clusterIPs": numbered(lambda number: f"10.0.{number // 250}.{number % 250}"),
        }
    }
    STRATEGIES["services"].default(made)
    errors = STRATEGIES["services"].validate(made)
    assert sum(len(error.body) for error in errors) < 2000 * MANY


def test_quotas() -> None:
    hard = {f"hugepages-{number}": "1" for number in range(MANY)}
    expressions = numbered(lambda number: {"scopeName": f"s{number}", "operator": "x"})
    quota = {
        "spec": {
            "hard": hard,
            "scopes": ["BestEffort", *numbered(lambda number: f"s{number}")],
            "scopeSelector": {"matchExpressions": expressions},
        }
    }
    errors = STRATEGIES["resourcequotas"].validate(quota)
    assert errors
    assert sum(len(error.body) for error in errors) < 2000 * MANY


def test_nodes() -> None:
    status = {"addresses": numbered(lambda number: {"type": "Hostname", "address": f"n{number}"})}
    assert STRATEGIES["nodes"].validate_status({"status": status}, {}) == []


def test_owners() -> None:
    owners = numbered(
        lambda number: {"apiVersion": "v1", "kind": "K", "name": f"n{number}", "uid": "u", "controller": True}
    )
    errors = validate_metadata({"name": "a", "namespace": "n", "ownerReferences": owners}, True)
    assert len(errors) == 1
