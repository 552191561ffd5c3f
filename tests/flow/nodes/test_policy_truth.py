"""NetworkPolicies against their definition: who reaches whom, by which protocol and port, over two real nodes.

Policies and labels are written through the API; packets decide. See `alcove.testing.policy_oracle` for what is expected.
"""

import json
import random
from collections.abc import Iterator

import pytest

from alcove.api.objects import Object
from alcove.testing.nodecluster import node_cluster
from alcove.testing.policy_samples import NAMESPACES, PolicyChooser, corners
from alcove.testing.policy_world import OUTSIDE, OUTSIDE_RANGE, RANGES, PolicyWorld
from alcove.testing.reachability import Reachability

CORNERS = corners(tuple(RANGES.values()), OUTSIDE_RANGE)
SEEDS, SEEDS_SLOW = range(4), range(4, 300)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyWorld]:
    directory = tmp_path_factory.mktemp("policy-truth")
    with node_cluster(directory, 2, f"{OUTSIDE}/24") as cluster, Reachability() as reachability:
        made = PolicyWorld(cluster, reachability)
        made.set_up()
        assert made.differences([]) == [], "without policies, everything passes"
        yield made


def must_hold(world: PolicyWorld, policies: list[Object]) -> None:
    found = world.differences(policies)
    assert not found, "\n".join([*found, json.dumps(policies, indent=1)])


@pytest.mark.parametrize("name", CORNERS)
def test_a_corner_of_the_definition_holds(world: PolicyWorld, name: str) -> None:
    must_hold(world, CORNERS[name])


def must_hold_at_random(world: PolicyWorld, seed: int) -> None:
    """Labels change together with policies."""
    chance = random.Random(seed)
    chooser = PolicyChooser(seed, tuple(RANGES.values()), world.addresses, OUTSIDE_RANGE)
    for pod in chance.sample(world.pods, 2):
        world.relabel_pod(pod, chooser.pod_labels())
    world.relabel_namespace(chance.choice(NAMESPACES), chooser.namespace_labels())
    must_hold(world, chooser.policies())


@pytest.mark.parametrize("seed", SEEDS)
def test_random_policies_and_labels_hold(world: PolicyWorld, seed: int) -> None:
    must_hold_at_random(world, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS_SLOW)
def test_many_random_policies_and_labels_hold(world: PolicyWorld, seed: int) -> None:
    must_hold_at_random(world, seed)
