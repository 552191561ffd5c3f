"""The work of compiling a policy is counted before it is done, and no less than is done."""

import pytest

from alcove.api.objects import Object
from alcove.network.policy_work import BLOCK_COMPARISONS, PeerCounts, comparisons

COUNTS = PeerCounts(peers=100, by_namespace={"default": 10}, ports=250, ports_most=7, namespaces=3)
BLOCK = {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}
NAMED, NUMBERED = {"port": "http"}, {"port": 80}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, 0),
        ({"ingress": [{}]}, 1),
        ({"ingress": [{"from": [{"podSelector": {}}] * 5}]}, 1 + 5 * 11),
        ({"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]}, 1 + 104),
        ({"ingress": [{"from": [{"ipBlock": BLOCK}], "ports": [NUMBERED]}]}, 1 + 2 + 1),
        ({"ingress": [{"from": [{"ipBlock": BLOCK}], "ports": [NAMED]}]}, 9 + 200 * BLOCK_COMPARISONS),
        ({"egress": [{"to": [{"ipBlock": BLOCK}], "ports": [NAMED]}]}, 252 + 200 * BLOCK_COMPARISONS),
        ({"egress": [{"ports": [NAMED, NUMBERED]}]}, 1 + 2 + 250),
    ],
)
def test_comparisons(spec: Object, expected: int) -> None:
    assert comparisons(spec, "default", COUNTS, has_ingress=True, has_egress=True) == expected
    assert comparisons(spec, "default", COUNTS, has_ingress=False, has_egress=False) == 0
