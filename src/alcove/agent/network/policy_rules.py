"""What the pods of one network on this node may do, by the tenant's policies.

While a tenant's policies cannot be read, nothing may be opened that was not open: an answer that is missing is not
a yes.
"""

import logging

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.policies import DENIED, gateway_peers, pod_peer, profiles
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.podkey import PodKey
from alcove.api import objects
from alcove.api.kinds.mizar import SIMPLE
from alcove.dataplane.model import TrafficProfile
from alcove.network.policy import PolicyPeer, PolicySet

log = logging.getLogger(__name__)

BLOCKS_MAX = 20_000
"""Of one pod's rules, both ways. The kernel's room for rules is for all tenants: who wants more is let nothing."""

Profiles = tuple[TrafficProfile | None, TrafficProfile | None]
"""In and out."""
_OPEN: Profiles = (None, None)
_CLOSED: Profiles = (DENIED, DENIED)


class PolicyRules:
    def __init__(self, tenant: TenantNetworkView, holdings: EndpointIndex) -> None:
        self._tenant = tenant
        self._holdings = holdings
        self._policies: PolicySet | None = None
        self._pods: dict[tuple[str, str], tuple[str, PolicyPeer]] = {}
        """Uid and peer, by namespace and name."""
        self._current: dict[PodKey, Profiles] = {}
        self._last: dict[PodKey, Profiles] = {}

    def touch(self) -> None:
        """Policies, namespaces, pods or addresses have changed."""
        self._policies = None
        self._current.clear()

    def of(self, backing: NetworkBacking, key: PodKey) -> Profiles:
        """What was so last stays so while something is not known."""
        if not self._tenant.is_synced():
            return self._last.get(key, _CLOSED)
        if key not in self._current:
            self._current[key] = self._last[key] = self._judge(backing, key)
        return self._current[key]

    def forget(self, gone: PodKey) -> None:
        self._last.pop(gone, None)

    def _judge(self, backing: NetworkBacking, key: PodKey) -> Profiles:
        if not self._tenant.has_policies():
            return _OPEN
        try:
            if self._policies is None:
                self._policies = self._read(backing)
            uid, peer = self._pods.get((key.namespace, key.name), ("", None))
            # A pod that the API does not show (any more) is on its way.
            if peer is None or uid != key.uid:
                return _CLOSED
            return limited(profiles(self._policies.rules(peer)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Not a reason to stop for other tenants.
            log.warning("policies not understood", extra={"pod": str(key), "error": str(error)})
            return _CLOSED

    def _read(self, backing: NetworkBacking) -> PolicySet:
        tenant, peers = self._tenant, self._tenant.peers
        self._pods.clear()
        namespaces: dict[str, dict[str, str]] = {}
        if peers is not None:
            namespaces = {objects.name(each): objects.labels(each) for each in tenant.all(peers.namespaces)}
            for pod in tenant.all(peers.pods):
                uid = pod["metadata"]["uid"]
                held = [each for each in self._holdings.of(uid) if each.kind == SIMPLE]
                if held:
                    self._pods[objects.namespace(pod), objects.name(pod)] = (uid, pod_peer(pod, held))
        found = [*gateway_peers(backing), *(peer for _, peer in self._pods.values())]
        return PolicySet(tenant.all(tenant.policies), namespaces, found)


def limited(found: Profiles) -> Profiles:
    """Raises ValueError where the rules are too many."""
    blocks = sum(
        max(1, len(rule.peers or ())) * max(1, len(rule.ports or ()))
        for profile in found
        if profile is not None
        for rule in profile.rules
    )
    if blocks > BLOCKS_MAX:
        raise ValueError(f"they come to {blocks} rules, more than {BLOCKS_MAX}")
    return found
