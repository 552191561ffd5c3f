"""The ledger: who holds what on which node, over all planes, so that nothing is assigned twice.

A pod holds its resources from the decision on. The outcome is learned from the response to the binding, or
from the plane's watch; until then the reservation stands:

    PENDING ──assume──▶ ASSUMED ──accepted / observed──▶ PLACED ──deleted──▶ (released)
       ▲                   │ │
       └──── refused ──────┘ └─ unconfirmed: the same binding is sent again, to the same node

A missing response means an unknown outcome. Sending the same binding again is safe (a bound pod is not bound
twice) and eventually gives the outcome; assigning the resources to another pod meanwhile is not. So a plane
that is slow, unreachable or restarting keeps the resources it may have used, and no more.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId, TenantKey
from alcove.scheduler.fairness import FairShareQueue
from alcove.scheduler.pods import PodState, SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.storage import ClaimKey
from alcove.scheduler.volumeplans import NO_VOLUMES, VolumePlan

ANSWER_SECONDS_MAX = 60.0
"""Without a response after this time, the binding is unconfirmed."""
RECHECK_SECONDS = 1.0
RECHECK_SECONDS_MAX = 30.0
CLAIMS_SECONDS_MAX = 600.0
"""How long a pod holds its resources while it waits for volumes."""
PLANE_FLIGHTS_MAX = 1024
"""Bindings of one plane in flight: bounds the unconfirmed resources of a slow plane."""

K = TypeVar("K")


class InFlightBinding(Struct):
    """A decision that was sent to the plane."""

    pod: SchedulerPod
    plane: PlaneId
    node: str
    due: float
    """Time at which it is sent again."""
    plan: VolumePlan
    """Volumes to bind or provision for it."""
    is_preparing: bool
    """Its volumes are not ready yet; the pod is bound afterwards."""
    unconfirmed: int = 0
    number: int = 0
    selected: set[ClaimKey] = field(default_factory=set)
    """Claims that were observed waiting for provisioning."""


class Ledger:
    def __init__(self, cache: SchedulerCache, fairness: FairShareQueue) -> None:
        self._cache = cache
        self._fairness = fairness
        self.flights: dict[SchedulerPod, InFlightBinding] = {}
        self._due: list[tuple[float, int, InFlightBinding]] = []
        self._numbers = 0
        self._planes: Counter[PlaneId] = Counter()
        self._tenant_keys: Counter[TenantKey] = Counter()

    def in_flight(self, plane: PlaneId) -> int:
        return self._planes[plane]

    def in_flight_of(self, tenant_key: TenantKey) -> int:
        return self._tenant_keys[tenant_key]

    def assume(
        self, pod: SchedulerPod, node: str, now: float, plan: VolumePlan = NO_VOLUMES
    ) -> InFlightBinding:
        """Reserves the node's resources for the pod: the binding is decided."""
        self._hold(pod, node)
        pod.state = PodState.ASSUMED
        flight = self.flights[pod] = InFlightBinding(pod, pod.plane, node, 0.0, plan, bool(plan))
        self._planes[pod.plane] += 1
        self._tenant_keys[TenantKey(pod.plane, pod.tenant)] += 1
        self._wake_at(flight, now + (CLAIMS_SECONDS_MAX if plan else ANSWER_SECONDS_MAX))
        promised = self._cache.storage(pod.tenant).promised if plan else {}
        promised.update(plan.binds)
        return flight

    def place(self, pod: SchedulerPod, node: str) -> None:
        """The plane reports the pod on the node. This overrides an assumed node."""
        self._end_flight(pod)
        if pod.node and pod.node != node:
            self._release(pod)
        if not pod.node:
            self._hold(pod, node)
        pod.state = PodState.PLACED
        pod.attempts = 0

    def taken(self, pod: SchedulerPod) -> None:
        """The plane accepted the decision."""
        if pod.state is PodState.ASSUMED:
            self.place(pod, pod.node)

    def mark_unconfirmed(self, pod: SchedulerPod, now: float) -> None:
        """The outcome of the binding is unknown: send it again after a backoff."""
        flight = self.flights.get(pod)
        if flight is not None and not flight.is_preparing:
            delay = min(RECHECK_SECONDS * 2 ** min(flight.unconfirmed, 16), RECHECK_SECONDS_MAX)
            flight.unconfirmed += 1
            self._wake_at(flight, now + delay)

    def bind_now(self, flight: InFlightBinding, now: float) -> None:
        """Its volumes are ready: the pod is being bound."""
        flight.is_preparing = False
        self._wake_at(flight, now + ANSWER_SECONDS_MAX)

    def check_preparing(self, tenant: TenantId) -> tuple[list[InFlightBinding], list[InFlightBinding]]:
        """Those of the tenant's pods that wait for volumes which can be bound now, and which failed."""
        ready: list[InFlightBinding] = []
        failed: list[InFlightBinding] = []
        for flight in self.flights.values():
            pod = flight.pod
            if not flight.is_preparing or pod.tenant != tenant:
                continue
            claims = self._cache.storage(tenant).claims
            found = [claims.get((pod.namespace, use.name)) for use in pod.shape.claims]
            bound = {claim.key for claim in found if claim is not None and claim.is_bound}
            provisioning = {claim.key for claim in found if claim is not None and claim.selected_node}
            if any(claim is None for claim in found) or flight.selected - provisioning - bound:
                # A provisioner that fails removes the selected-node annotation from the claim.
                failed.append(flight)
            elif len(bound) == len(found):
                ready.append(flight)
            else:
                flight.selected |= provisioning
        return ready, failed

    def release(self, pod: SchedulerPod) -> None:
        """Releases everything the pod holds: it was refused, deleted or has finished."""
        self._end_flight(pod)
        if pod.node:
            self._release(pod)
        pod.state = PodState.IGNORED

    def swap(self, pod: SchedulerPod, change: Callable[[], None]) -> None:
        """Applies a change to a placed pod; it stays on its node."""
        node = pod.node
        self._release(pod)
        change()
        self._hold(pod, node)

    def due(self, now: float) -> InFlightBinding | None:
        """A binding that is due to be sent again. None if there is none."""
        while self._due and self._due[0][0] <= now:
            _, number, flight = heapq.heappop(self._due)
            if number == flight.number and self.flights.get(flight.pod) is flight:
                self._wake_at(flight, now + ANSWER_SECONDS_MAX)
                return flight
        return None

    def next_due(self) -> float | None:
        while self._due:
            due, number, flight = self._due[0]
            if number == flight.number and self.flights.get(flight.pod) is flight:
                return due
            heapq.heappop(self._due)
        return None

    def _wake_at(self, flight: InFlightBinding, due: float) -> None:
        self._numbers += 1
        flight.due, flight.number = due, self._numbers
        heapq.heappush(self._due, (due, flight.number, flight))

    def _end_flight(self, pod: SchedulerPod) -> None:
        flight = self.flights.pop(pod, None)
        if flight is not None:
            _decrement(self._planes, flight.plane)
            _decrement(self._tenant_keys, TenantKey(flight.plane, pod.tenant))
            for volume, _ in flight.plan.binds:
                self._cache.storage(pod.tenant).promised.pop(volume, None)

    def _hold(self, pod: SchedulerPod, node: str) -> None:
        self._cache.place(pod, node)
        self._fairness.charge(self._fairness.account(pod.tenant), pod.shape.requests.amounts)

    def _release(self, pod: SchedulerPod) -> None:
        self._cache.lift(pod)
        self._fairness.charge(self._fairness.account(pod.tenant), pod.shape.requests.amounts, -1)


def _decrement(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
