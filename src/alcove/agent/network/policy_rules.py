"""Network policy rules of the pods of one network on this node.

While a tenant's policies cannot be read, or are being computed, pods keep their last rules, and new pods are denied
everything. What takes long is computed beside the event loop; then the data plane is reconciled once more.
"""

import asyncio
from collections.abc import Callable

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.policies import pod_peer
from alcove.agent.network.policy_evaluation import (
    CLOSED,
    OPEN,
    PolicyInputs,
    PolicyOutcome,
    Profiles,
    evaluate,
)
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import PolicyPeers, TenantNetworkView
from alcove.agent.network.tenant_work import TenantWork
from alcove.agent.podkey import PodKey
from alcove.api.kinds.mizar import SIMPLE
from alcove.api.objects import Object
from alcove.network.gateway_peers import gateway_peers
from alcove.network.policy import PolicyPeer, SelectingPolicies

COMPARISONS_MAX = 1_000_000
"""Most comparisons of policies' selectors with pods of the network, in all policies that are asked for its pods on the node: they are made
anew when a pod is. Pods that came later, and are selected by others, are denied everything."""

INLINE_WORK_MAX = 400_000
"""Bytes of policies times members of the network up to which rules are computed on the event loop: some milliseconds."""
READ_AT_ONCE = 200
"""Pods whose metadata is read on the event loop before others have their turn."""

PodName = tuple[str, str]
"""Namespace and name."""


class PolicyRules:
    def __init__(
        self,
        tenant: TenantNetworkView,
        allocations: EndpointIndex,
        work: TenantWork,
        computed: Callable[[], None] = lambda: None,
    ) -> None:
        """`computed` is called when rules have been computed that `for_pod` could not return at once."""
        self._tenant = tenant
        self._allocations = allocations
        self._work = work
        self._computed = computed
        self._is_computing = False
        self._version = 0
        """Counts what invalidates the rules."""
        self._peers: PolicyPeers | None = None
        """What `_pods` was read from."""
        self._pods: dict[PodName, tuple[str, PolicyPeer]] = {}
        """Uid and peer of pods that have an address in the network, by namespace and name."""
        self._changed_pods: set[PodName] = set()
        """Those to read again."""
        self._known: dict[PodKey, None] = {}
        """Pods whose rules were asked for, in that order."""
        self._current: dict[PodKey, PolicyOutcome] = {}
        self._last: dict[PodKey, Profiles] = {}
        self.excessive: set[PodKey] = set()
        """Pods that are denied everything because they have too many rules."""

    def touch_pod(self, namespace: str, name: str) -> None:
        """Invalidates all rules, because a pod or its addresses have changed."""
        if self._peers is not None and self._peers is self._tenant.peers:
            self._changed_pods.add((namespace, name))
        self.touch()

    def touch(self) -> None:
        """Invalidates all rules, because policies or namespaces have changed."""
        self._version += 1
        self._current.clear()

    def for_pod(self, backing: NetworkBacking, key: PodKey) -> Profiles:
        """The pod's rules; the last ones while the tenant's objects are not synced or the rules are not computed."""
        self._known.setdefault(key)
        if not self._tenant.is_synced():
            return self._last.get(key, CLOSED)
        if key not in self._current:
            if not self._tenant.has_policies():
                self._put({key: PolicyOutcome(OPEN)})
            elif not self._is_long():
                self._read_pods(READ_AT_ONCE)
                self._put(evaluate(self._inputs(backing)))
                self._put({each: PolicyOutcome(CLOSED) for each in self._known if each not in self._current})
            elif not self._is_computing:
                self._is_computing = True
                self._work.spawn("network policies", self._compute(backing))
        return self._current[key].profiles if key in self._current else self._last.get(key, CLOSED)

    def has_rules(self, backing: NetworkBacking, key: PodKey) -> bool:
        """Whether the pod's rules were computed, now or at an earlier change."""
        self.for_pod(backing, key)
        return key in self._last

    def is_current(self, key: PodKey) -> bool:
        return key in self._current

    def selecting(self, key: PodKey) -> SelectingPolicies | None:
        """The policies that the pod's current rules were made from; None if there are no such rules."""
        outcome = self._current.get(key)
        return outcome.selecting if outcome is not None else None

    def forget(self, key: PodKey) -> None:
        self._known.pop(key, None)
        self._current.pop(key, None)
        self._last.pop(key, None)
        self.excessive.discard(key)

    def _is_long(self) -> bool:
        """Whether it takes long to compute the rules."""
        self._follow_peers()
        members = 1 + len(self._pods) + len(self._changed_pods)
        return (
            len(self._changed_pods) > READ_AT_ONCE
            or self._tenant.policies_size * members > INLINE_WORK_MAX
            or len(self._tenant.namespace_labels) > INLINE_WORK_MAX // 1_000
        )

    async def _compute(self, backing: NetworkBacking) -> None:
        try:
            is_more = True
            while is_more:
                is_more = self._read_pods(READ_AT_ONCE)
                await asyncio.sleep(0)
            version, inputs = self._version, self._inputs(backing)
            found = await self._work.compute(inputs.tenant, lambda: evaluate(inputs))
            # These are newer than the last ones, even if something has changed since.
            self._last.update({key: each.profiles for key, each in found.items() if key in self._known})
            if version == self._version:
                self._put({key: each for key, each in found.items() if key in self._known})
                # The API does not show the others yet, or no longer.
                self._put({each: PolicyOutcome(CLOSED) for each in self._known if each not in self._current})
        finally:
            self._is_computing = False
            self._computed()

    def _put(self, found: dict[PodKey, PolicyOutcome]) -> None:
        self._current.update(found)
        self._last.update({key: each.profiles for key, each in found.items()})
        self.excessive -= found.keys()
        self.excessive |= {key for key, each in found.items() if each.is_excessive}

    def _inputs(self, backing: NetworkBacking) -> PolicyInputs:
        pods: dict[PodKey, PolicyPeer] = {}
        for key in self._known:
            uid, peer = self._pods.get((key.namespace, key.name), ("", None))
            if peer is not None and uid == key.uid:
                pods[key] = peer
        tenant = self._tenant
        gateways = gateway_peers(backing.owner.name, (each.ip for each in backing.gateways))
        return PolicyInputs(
            tenant=tenant.tenant_key.tenant,
            policies=tenant.policies_in({key.namespace for key in pods}),
            namespaces=dict(tenant.namespace_labels),
            peers=(*gateways, *(peer for _, peer in self._pods.values())),
            pods=pods,
            before=dict(self._last),
            comparisons_max=COMPARISONS_MAX,
        )

    def _follow_peers(self) -> None:
        if self._peers is not self._tenant.peers:
            self._peers = self._tenant.peers
            self._pods.clear()
            self._changed_pods = {
                (each.owner.namespace, each.owner.name)
                for each in self._allocations.all()
                if each.kind == SIMPLE and each.owner is not None
            }

    def _read_pods(self, most: int) -> bool:
        """Reads so many of the pods that have changed. Returns whether there are more."""
        self._follow_peers()
        for _ in range(min(most, len(self._changed_pods))):
            namespace, name = self._changed_pods.pop()
            self._put_pod(namespace, name, self._tenant.peer_pod(namespace, name))
        return bool(self._changed_pods)

    def _put_pod(self, namespace: str, name: str, pod: Object | None) -> None:
        uid = pod["metadata"]["uid"] if pod is not None else ""
        allocations = [each for each in self._allocations.for_owner(uid) if each.kind == SIMPLE]
        if pod is not None and allocations:
            self._pods[namespace, name] = (uid, pod_peer(pod, allocations))
        else:
            self._pods.pop((namespace, name), None)
