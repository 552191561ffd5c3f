"""The policy rules of all pods of a network on this node, computed at once from values. Pure: no I/O, in any thread."""

import logging
from collections.abc import Mapping

import orjson
from msgspec import Struct

from alcove.agent.network.policies import DENIED, profiles
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.dataplane.model import TrafficProfile
from alcove.dataplane.policies import compile_profile
from alcove.network.policy import PolicyPeer, PolicySet, SelectingPolicies, TooManyRules

log = logging.getLogger(__name__)

BLOCKS_MAX = 20_000
"""Most blocks in one pod's rules, both directions. All tenants share the kernel's tables: a pod with more is
denied everything."""

STEPS_MAX = 500_000
"""Most pairs of a rule and an address or prefix in one pod's rules: each is compared when they are compiled. A pod
with more is denied everything."""

Profiles = tuple[TrafficProfile | None, TrafficProfile | None]
"""Ingress and egress; None means that everything is allowed."""
OPEN: Profiles = (None, None)
CLOSED: Profiles = (DENIED, DENIED)

_INVALID = (ValueError, KeyError, TypeError, AttributeError)
"""What a policy raises that is not as Kubernetes validates it: dedicated planes may have any."""


class PolicyInputs(Struct, frozen=True):
    tenant: TenantId
    policies: tuple[bytes, ...]
    """Those in the namespaces of `pods`, encoded."""
    namespaces: Mapping[str, Mapping[str, str]]
    peers: tuple[PolicyPeer, ...]
    """All members of the network."""
    pods: Mapping[PodKey, PolicyPeer]
    """Those on this node, in the order in which they came."""
    before: Mapping[PodKey, Profiles]
    comparisons_max: int


class PolicyOutcome(Struct, frozen=True):
    """Of one pod."""

    profiles: Profiles
    """Those from before, if they are equal: whoever compares them need not look into them."""
    selecting: SelectingPolicies | None = None
    is_excessive: bool = False


def evaluate(inputs: PolicyInputs) -> dict[PodKey, PolicyOutcome]:
    try:
        policies = PolicySet(
            [orjson.loads(each) for each in inputs.policies],
            inputs.namespaces,
            inputs.peers,
            inputs.comparisons_max,
        )
    except _INVALID as error:
        # Other tenants must not be affected.
        log.warning("invalid network policy", extra={"tenant": inputs.tenant, "error": str(error)})
        return dict.fromkeys(inputs.pods, PolicyOutcome(CLOSED))
    return {key: _outcome(inputs, policies, key, pod) for key, pod in inputs.pods.items()}


def _outcome(inputs: PolicyInputs, policies: PolicySet, key: PodKey, pod: PolicyPeer) -> PolicyOutcome:
    try:
        selecting = policies.selecting(pod)
        found = limited(profiles(selecting.rules()))
        for profile in found:
            if profile is not None:
                compile_profile(profile, inputs.tenant)  # Here, and not where other tenants wait for it.
    except TooManyRules:
        return PolicyOutcome(CLOSED, is_excessive=True)
    except _INVALID as error:
        log.warning("failed to compile network policies", extra={"pod": str(key), "error": str(error)})
        return PolicyOutcome(CLOSED)
    before = inputs.before.get(key)
    return PolicyOutcome(before if before is not None and before == found else found, selecting)


def limited(both: Profiles) -> Profiles:
    """The same profiles. Raises TooManyRules."""
    blocks = sum(
        max(1, sum(1 + len(block.excepts) for block in rule.peers or ())) * max(1, len(rule.ports or ()))
        for profile in both
        if profile is not None
        for rule in profile.rules
    )
    if blocks > BLOCKS_MAX:
        raise TooManyRules(f"{blocks} policy rule blocks exceed the maximum of {BLOCKS_MAX}")
    steps = sum(_steps(profile) for profile in both if profile is not None)
    if steps > STEPS_MAX:
        raise TooManyRules(f"{steps} pairs of policy rules and addresses exceed the maximum of {STEPS_MAX}")
    return both


def _steps(profile: TrafficProfile) -> int:
    """How often a prefix is compared with a rule; one with exceptions is compared block by block."""
    blocks = [block for rule in profile.rules for block in rule.peers or ()]
    prefixes = sum(1 + len(block.excepts) for block in blocks)
    excepting = sum(1 + len(block.excepts) for block in blocks if block.excepts)
    return prefixes * (len(profile.rules) + excepting)
