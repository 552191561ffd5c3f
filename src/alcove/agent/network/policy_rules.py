"""Network policy rules of the pods of one network on this node.

While a tenant's policies cannot be read, pods keep their last rules, and new pods are denied everything.
"""

import logging

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.policies import DENIED, pod_peer, profiles
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import PolicyPeers, TenantNetworkView
from alcove.agent.podkey import PodKey
from alcove.api import objects
from alcove.api.kinds.mizar import SIMPLE
from alcove.api.objects import Object
from alcove.dataplane.model import TrafficProfile
from alcove.network.gateway_peers import gateway_peers
from alcove.network.policy import PolicyPeer, PolicySet, SelectingPolicies, TooManyRules

log = logging.getLogger(__name__)

BLOCKS_MAX = 20_000
"""Most blocks in one pod's rules, both directions. All tenants share the kernel's tables: a pod with more is
denied everything."""

STEPS_MAX = 500_000
"""Most pairs of a rule and an address or prefix in one pod's rules: each is compared when they are compiled. A pod
with more is denied everything."""

COMPARISONS_MAX = 1_000_000
"""Most comparisons of policies' peers with pods of the network, in all policies that select one of its pods on the node: they are made anew
when a pod is. Pods that came later, and are selected by others, are denied everything."""

PodName = tuple[str, str]
"""Namespace and name."""
Profiles = tuple[TrafficProfile | None, TrafficProfile | None]
"""Ingress and egress; None means that everything is allowed."""
_OPEN: Profiles = (None, None)
_CLOSED: Profiles = (DENIED, DENIED)


class PolicyRules:
    def __init__(self, tenant: TenantNetworkView, allocations: EndpointIndex) -> None:
        self._tenant = tenant
        self._allocations = allocations
        self._policies: PolicySet | None = None
        self._peers: PolicyPeers | None = None
        """What `_pods` was read from."""
        self._pods: dict[PodName, tuple[str, PolicyPeer]] = {}
        """Uid and peer of pods that have an address in the network, by namespace and name."""
        self._changed_pods: set[PodName] = set()
        """Those to read again."""
        self._current: dict[PodKey, Profiles] = {}
        self._last: dict[PodKey, Profiles] = {}
        self._selecting: dict[PodKey, SelectingPolicies] = {}
        self.excessive: set[PodKey] = set()
        """Pods that are denied everything because they have too many rules."""

    def touch_pod(self, namespace: str, name: str) -> None:
        """Invalidates all rules, because a pod or its addresses have changed."""
        if self._peers is not None and self._peers is self._tenant.peers:
            self._changed_pods.add((namespace, name))
            if len(self._changed_pods) > len(self._pods) + 1:
                self._forget_pods()  # To read all of them costs no more.
        self.touch()

    def touch(self) -> None:
        """Invalidates all rules, because policies or namespaces have changed."""
        self._policies = None
        self._current.clear()
        self._selecting.clear()
        self.excessive.clear()

    def for_pod(self, backing: NetworkBacking, key: PodKey) -> Profiles:
        """The pod's rules; the last ones while the tenant's objects are not synced."""
        if not self._tenant.is_synced():
            return self._last.get(key, _CLOSED)
        if key not in self._current:
            self._current[key] = self._last[key] = self._evaluate(backing, key)
        return self._current[key]

    def selecting(self, key: PodKey) -> SelectingPolicies | None:
        """The policies that the pod's current rules were made from; None if there are no such rules."""
        return self._selecting.get(key)

    def forget(self, key: PodKey) -> None:
        self._last.pop(key, None)
        self._selecting.pop(key, None)
        self.excessive.discard(key)

    def _evaluate(self, backing: NetworkBacking, key: PodKey) -> Profiles:
        if not self._tenant.has_policies():
            return _OPEN
        try:
            if self._policies is None:
                self._policies = self._read(backing)
            uid, peer = self._pods.get((key.namespace, key.name), ("", None))
            # The API does not show the pod yet, or no longer.
            if peer is None or uid != key.uid:
                return _CLOSED
            selecting = self._selecting[key] = self._policies.selecting(peer)
            return limited(profiles(selecting.rules()))
        except TooManyRules:
            self.excessive.add(key)
            return _CLOSED
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Other tenants must not be affected.
            log.warning("failed to compile network policies", extra={"pod": str(key), "error": str(error)})
            return _CLOSED

    def _read(self, backing: NetworkBacking) -> PolicySet:
        tenant, peers = self._tenant, self._tenant.peers
        self._read_pods()
        namespaces: dict[str, dict[str, str]] = {}
        if peers is not None:
            namespaces = {objects.name(each): objects.labels(each) for each in tenant.all(peers.namespaces)}
        gateways = gateway_peers(backing.owner.name, (each.ip for each in backing.gateways))
        all_peers = [*gateways, *(peer for _, peer in self._pods.values())]
        return PolicySet(tenant.all(tenant.policies), namespaces, all_peers, COMPARISONS_MAX)

    def _read_pods(self) -> None:
        """Reads the pods that have changed; all of them if they were not watched before."""
        tenant, peers = self._tenant, self._tenant.peers
        if self._peers is not peers:
            self._forget_pods()
            for pod in tenant.all(peers.pods) if peers is not None else ():
                self._put_pod(objects.namespace(pod), objects.name(pod), pod)
            self._peers = peers
        while self._changed_pods:
            namespace, name = self._changed_pods.pop()
            self._put_pod(namespace, name, tenant.peer_pod(namespace, name))

    def _forget_pods(self) -> None:
        self._peers = None
        self._pods.clear()
        self._changed_pods.clear()

    def _put_pod(self, namespace: str, name: str, pod: Object | None) -> None:
        uid = pod["metadata"]["uid"] if pod is not None else ""
        allocations = [each for each in self._allocations.for_owner(uid) if each.kind == SIMPLE]
        if pod is not None and allocations:
            self._pods[namespace, name] = (uid, pod_peer(pod, allocations))
        else:
            self._pods.pop((namespace, name), None)


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
