"""Rules that take long are computed beside the event loop; pods keep their last ones meanwhile."""

import asyncio

import pytest

from alcove.agent.network import policy_rules
from alcove.agent.network.policies import DENIED
from alcove.api.objects import Object
from alcove.client.planes import Planes
from alcove.testing.loop_holds import LoopHolds
from alcove.testing.network_node import BACKING, NetworkNode

WEB = {"podSelector": {"matchLabels": {"app": "web"}}}
HELD_MS_MAX = 25.0
"""It is a few milliseconds, on a busy machine some more; on the loop it would be a hundred and more."""
"""On a loop that serves DNS and probes. Before, it was held for 400 to 2,300 ms."""


def ingress(*peers: Object) -> Object:
    return {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": list(peers)}]}


LONG = {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}] * 400}}
POLICIES = {
    "peers": ingress(*[WEB] * 900),
    "requirements": ingress(LONG),
    "ranges": ingress(*({"ipBlock": {"cidr": f"10.{n >> 8}.{n & 255}.0/24"}} for n in range(10_000))),
}


@pytest.mark.parametrize("spec", POLICIES.values(), ids=POLICIES)
async def test_policies_of_many_peers_do_not_hold_the_loop(spec: Object) -> None:
    async with Planes() as planes:
        node = NetworkNode(planes)
        keys = [node.put_pod(number, "web" if number % 2 else "db") for number in range(500)]
        for number in range(500):
            node.put_endpoint(number, number)
        local, rules = keys[:20], node.view.rules
        node.put("networkpolicies", "p", "default", spec=ingress(WEB))
        await node.computed(local)
        before = rules.for_pod(BACKING, local[0])
        async with LoopHolds() as holds:
            node.put("networkpolicies", "p", "default", spec=spec)
            await holds.begin_anew()  # The put decodes and encodes the object, as the informer does.
            newcomer = keys[30]
            assert rules.for_pod(BACKING, local[0]) is before, "the last rules until there are others"
            assert rules.for_pod(BACKING, newcomer) == (DENIED, DENIED), "none before they are known"
            await node.computed([*local, newcomer])
        assert holds.longest_ms < HELD_MS_MAX
        after = rules.for_pod(BACKING, newcomer)
        assert after != (DENIED, DENIED) and after[0] is not None
        assert not rules.excessive
        # What is computed again and is the same is the same object.
        same = rules.for_pod(BACKING, local[3])
        node.put_pod(30, "db", "again")
        node.put("namespaces", "other", "")
        await node.computed(local)
        assert rules.for_pod(BACKING, local[3]) is same
        node.close()


async def test_requirements_of_selectors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """One peer with 20,000 requirements counted as one comparison for each pod, and took seconds."""
    monkeypatch.setattr(policy_rules, "COMPARISONS_MAX", 1_000)
    async with Planes() as planes:
        node = NetworkNode(planes)
        keys = [node.put_pod(number, "web") for number in range(10)]
        for number in range(10):
            node.put_endpoint(number, number)
        node.put("networkpolicies", "p", "default", spec=ingress(LONG))
        await node.computed(keys)
        assert node.view.rules.excessive == set(keys)
        selecting = {**ingress(WEB), "podSelector": LONG["podSelector"]}
        node.put("networkpolicies", "p", "default", spec=selecting)
        await node.computed(keys)
        assert node.view.rules.excessive == set(keys[2:]), "pods that came later have none left"
        node.put("networkpolicies", "p", "default", spec=ingress(WEB))
        await node.computed(keys)
        assert not node.view.rules.excessive
        node.close()


async def test_rules_that_change_all_the_time_are_computed_all_the_same() -> None:
    async with Planes() as planes:
        node = NetworkNode(planes)
        keys = [node.put_pod(number, "web") for number in range(500)]
        for number in range(500):
            node.put_endpoint(number, number)
        node.put("networkpolicies", "p", "default", spec=POLICIES["requirements"])
        rules = node.view.rules
        async with asyncio.timeout(30):
            while not rules.has_rules(BACKING, keys[0]):
                node.put_pod(1, "web", "changed")
                node.put("networkpolicies", "q", "default", spec=ingress(WEB))
                await asyncio.sleep(0)
        assert rules.for_pod(BACKING, keys[0]) != (DENIED, DENIED)
        node.close()
