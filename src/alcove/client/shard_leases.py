"""The leases of a process that takes some of several shards of work: one lease for each shard.

    LEASE                 if there is one shard
    LEASE-INDEX-of-COUNT  for each of several

Shards are spread evenly over the processes that run. A shard that is free is taken at once by a process that has none, and
later by one that has some. A process that has at least two shards less than another asks for one of them
(`spec.preferredHolder`), and the other releases it. A shard whose holder does not renew its lease is taken by any process.

All processes must divide the work alike. A process that has taken a shard looks whether another number of shards is in use:
if so, it releases the shard and tries again later. A lease of another division that is released, or not renewed, is deleted, which ends
its fence: whoever held it cannot write any more, even if it was only paused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import ApiError, Conflict, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.leader import NAMESPACE, LeaderElector, LeaderTiming, LeasePolicy
from alcove.client.resources import LEASES

log = logging.getLogger(__name__)

STRATEGY = "alcove.io/spread"
"""`spec.strategy` of a lease that a process has asked for."""


class _Seen(Struct, frozen=True):
    revision: str
    at: float


class ShardLeases:
    def __init__(
        self,
        client: Client,
        name: str,
        process: str,
        count: int,
        clock: Callable[[], float],
        timing: LeaderTiming,
    ) -> None:
        """`process` must be unique to this process. `clock`: epoch seconds."""
        self._client = client
        self._name = name
        self._process = process
        self._timing = timing
        self._names = lease_names(name, count)
        self._seen: dict[str, _Seen] = {}
        """When this process first saw the newest revision of a lease."""
        shared = LeasePolicy()
        self.electors = [
            LeaderElector(
                client,
                lease,
                process,
                clock,
                timing,
                policy=LeasePolicy(partial(self._takes, lease), self._leaves, shared.turn, shared.terms),
                # A plane has one shard, whatever their number: its fence has one name.
                plane_lease=name,
            )
            for lease in self._names
        ]

    @property
    def held(self) -> int:
        return sum(each.is_leading for each in self.electors)

    def _takes(self, name: str, lease: Object | None) -> bool:
        spec = (lease or {}).get("spec") or {}
        seconds = self._unchanged_seconds(name, lease)
        if preferred := spec.get("preferredHolder"):
            return bool(preferred == self._process) or seconds >= self._timing.lease_seconds
        if spec.get("holderIdentity"):
            return True  # It has expired.
        return seconds >= self.held * self._timing.renew_seconds

    def _leaves(self, _preferred: str) -> bool:
        return self.held > 1

    def _unchanged_seconds(self, name: str, lease: Object | None) -> float:
        revision = lease["metadata"]["resourceVersion"] if lease is not None else ""
        now = asyncio.get_running_loop().time()
        seen = self._seen.get(name)
        if seen is None or seen.revision != revision:
            seen = self._seen[name] = _Seen(revision, now)
        return now - seen.at

    # The number of shards

    async def is_only_division(self) -> bool:
        """Whether no process holds a shard of another division of the work. Call it with a shard's lease held: of
        two processes that differ at least one sees the other. False if that cannot be determined."""
        try:
            others = [each for each in await self._list() if self._is_of_other_division(each)]
            return all([await self._has_ended(each) for each in others])
        except (ApiError, ClientError) as error:
            log.info("failed to look for other shards; retrying", extra={"error": str(error)})
            return False

    def _is_of_other_division(self, lease: Object) -> bool:
        name = objects.name(lease)
        is_shard = re.fullmatch(rf"{re.escape(self._name)}(-\d+-of-\d+)?", name) is not None
        return is_shard and name not in self._names

    async def _has_ended(self, lease: Object) -> bool:
        name, holder = objects.name(lease), objects.get(lease, "spec", "holderIdentity", default="")
        lease_seconds = objects.get(lease, "spec", "leaseDurationSeconds", default=self._timing.lease_seconds)
        if holder and self._unchanged_seconds(name, lease) < lease_seconds:
            fields = {"lease": name, "holder": holder}
            log.warning("another number of shards is in use; waiting until it ends", extra=fields)
            return False
        try:
            revision = lease["metadata"]["resourceVersion"]
            await self._client.delete(SYSTEM, LEASES, name, namespace=NAMESPACE, revision=revision)
        except NotFound:
            return True
        except Conflict:
            return False
        return True

    # Spreading

    async def keep_spread(self) -> None:
        """Ask for shards of processes that have more, until cancelled."""
        while True:
            await asyncio.sleep(self._timing.renew_seconds)
            try:
                leases = [each for each in await self._list() if objects.name(each) in self._names]
                if wanted := to_ask_for(leases, self._process):
                    request = {"preferredHolder": self._process, "strategy": STRATEGY}
                    await self._client.update(
                        SYSTEM, LEASES, {**wanted, "spec": {**wanted["spec"], **request}}
                    )
            except (ApiError, ClientError) as error:
                log.info("failed to ask for a shard; retrying", extra={"error": str(error)})

    async def _list(self) -> list[Object]:
        return await self._client.list(SYSTEM, LEASES, namespace=NAMESPACE)


def lease_names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}-{index}-of-{count}" for index in range(count)]


def to_ask_for(leases: list[Object], process: str) -> Object | None:
    """The lease that the process should ask its holder for, if shards are not spread evenly; None if they are, or if it has
    asked already."""
    if any(objects.get(each, "spec", "preferredHolder") == process for each in leases):
        return None
    holders = [_process_of(each) for each in leases]
    counts = Counter(holder for holder in holders if holder)
    richest = max(counts, key=lambda each: (counts[each], each), default="")
    if not richest or counts[richest] < counts[process] + 2:
        return None
    owned = [
        lease
        for lease, holder in zip(leases, holders, strict=True)
        if holder == richest and not objects.get(lease, "spec", "preferredHolder")
    ]
    return max(owned, key=objects.name, default=None)


def _process_of(lease: Object) -> str:
    return str(objects.get(lease, "spec", "holderIdentity", default="")).rpartition("_")[0]
