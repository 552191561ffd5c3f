"""The open connections of a server, counted: by client address until a request is authenticated, then by group.

A group is whatever the server's owner accounts connections to: the API server's groups are tenants. One that has
too many loses only its own: a further connection of a group is refused, and a new connection from an address
closes one of that address that is not authenticated: the oldest whose client could continue and does not. The same
holds for the bytes of requests that connections hold until they are answered: an address that sends many parts of
requests loses the connection that holds most, and a group's bytes are counted by the server's owner. Agents,
proxies and quiet clients that authenticate at once are therefore served behind an address from which others open
connections and say nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address

from alcove.http.group_counts import GroupCounts
from alcove.http.limits import HttpLimits

IPV6_NETWORK_BYTES = 8
"""Addresses of one IPv6 network (/64) count as one: a single machine may have all of them."""

SHARE_OF_RESERVES = 8
"""Of few connections in all, at most an eighth is kept for new ones, and as many for the unlimited group."""


CountBytes = Callable[[str, int], None]
"""(group, count): the group's connections hold so many bytes more, or less if it is negative."""


def _nothing() -> None:
    pass


class ConnectionSlot:
    """One connection, from its acceptance to its end."""

    __slots__ = (
        "_table",
        "address",
        "awaits_server",
        "close",
        "deadline",
        "group",
        "held_bytes",
        "is_busy",
        "is_closed",
        "is_counted",
        "is_made",
        "network",
    )

    def __init__(self, table: ConnectionTable, address: str, deadline: float) -> None:
        self._table = table
        self.address = address
        self.network = network_of(address)
        self.deadline = deadline
        """The time at which it is closed if no request was authenticated."""
        self.group = ""
        """Empty until a request is authenticated."""
        self.held_bytes = 0
        """Bytes of requests that are in memory: received in part, waiting, or being answered."""
        self.is_busy = False
        """Whether a request is being answered, which its handler may refuse: such a connection is not shed."""
        self.awaits_server = False
        """Whether the client has done what it can, and waits for the server to compute its handshake."""
        self.is_counted = True
        self.is_closed = False
        self.is_made = False
        """Whether the connection has a protocol, which then tells the table when it is closed."""
        self.close: Callable[[], None] = _nothing
        """Closes the connection at once."""

    def claim(self, group: str) -> bool:
        """Counts the connection for the group of its last authenticated request, and no longer for its address
        or another group; False if the group has too many."""
        return self.group == group or self._table.claim(self, group)

    def hold(self, count: int) -> None:
        """Counts so many bytes of requests instead of those before. May close connections, this one included."""
        self._table.hold(self, count)


class ConnectionTable:
    def __init__(
        self,
        limits: HttpLimits,
        unlimited: str | None = None,
        *,
        has_groups: bool = True,
        counts: GroupCounts | None = None,
        count_bytes: CountBytes = lambda _group, _count: None,
    ) -> None:
        """`unlimited`: a group that is bounded only by the number of all connections, and for which some are
        reserved. `counts`: the connections of each group. `count_bytes` may call `shed`."""
        self._limits = limits
        self._unlimited = unlimited
        self._has_groups = has_groups
        """Without groups, connections are bounded by their number only."""
        share = max(limits.connections_max // SHARE_OF_RESERVES, 1)
        self._strangers_max = min(limits.unauthenticated_max, share)
        self._grouped_max = (
            limits.connections_max - self._strangers_max - min(limits.connections_reserved, share)
        )
        """Connections of all groups that are limited."""
        self._strangers: dict[str, dict[ConnectionSlot, None]] = {}
        """Connections without a group by network, the oldest first."""
        self._strangers_count = 0
        self._strangers_bytes: dict[str, int] = {}
        """Bytes that connections without a group hold, by network."""
        self._strangers_bytes_sum = 0
        self._groups: dict[str, dict[ConnectionSlot, None]] = {}
        self._count_bytes = count_bytes
        self._counts = GroupCounts() if counts is None else counts
        self.count = 0

    def open(self, address: str, now: float) -> ConnectionSlot | None:
        """Counts a new connection; None if there are too many in all. May close another one."""
        if self.count >= self._limits.connections_max:
            return None
        slot = ConnectionSlot(self, address, now + self._limits.unauthenticated_seconds_max)
        own = self._strangers.get(slot.network, {})
        if not self._has_groups:
            pass
        elif len(own) >= self._limits.unauthenticated_per_address_max:
            self._close_one(own)
        elif self._strangers_count >= self._strangers_max:
            self._close_one(max(self._strangers.values(), key=len))
        self._strangers.setdefault(slot.network, {})[slot] = None
        self._strangers_count += 1
        self.count += 1
        return slot

    def claim(self, slot: ConnectionSlot, group: str) -> bool:
        """See `ConnectionSlot.claim`."""
        if not slot.is_counted:
            return True  # It is being closed.
        if not self._has_room(group):
            return False
        self._forget(slot)
        slot.group = group
        self._groups.setdefault(group, {})[slot] = None
        self._counts.add(group, 1)
        self._count(slot, slot.held_bytes)
        return True

    def hold(self, slot: ConnectionSlot, count: int) -> None:
        """See `ConnectionSlot.hold`."""
        more, slot.held_bytes = count - slot.held_bytes, count
        if not slot.is_counted:
            return
        self._count(slot, more)
        if slot.group or more < 0 or not self._has_groups:
            return
        limits = self._limits
        if self._strangers_bytes.get(slot.network, 0) > limits.unauthenticated_bytes_per_address_max:
            self._end(max(self._strangers[slot.network], key=_held_bytes))
        elif self._strangers_bytes_sum > limits.unauthenticated_bytes_max:
            network = max(self._strangers_bytes, key=self._strangers_bytes.__getitem__)
            self._end(max(self._strangers[network], key=_held_bytes))

    def shed(self, group: str, count: int) -> None:
        """Closes the connections of a group that hold most of requests received in part, until about `count` bytes are
        free."""
        idle = [slot for slot in self._groups.get(group, ()) if not slot.is_busy]
        for slot in sorted(idle, key=_held_bytes, reverse=True):
            if count <= 0 or not slot.held_bytes:
                return
            count -= slot.held_bytes
            self._end(slot)

    def closed(self, slot: ConnectionSlot) -> None:
        """Call it once for each slot."""
        self._forget(slot)
        slot.is_closed, slot.is_counted, slot.close = True, False, _nothing
        self.count -= 1

    def close_expired(self, now: float) -> None:
        """Closes connections without an authenticated request in time."""
        for slots in list(self._strangers.values()):
            for slot in list(slots):
                if slot.deadline > now:
                    break
                slot.close()

    def _has_room(self, group: str) -> bool:
        """A group may have at most as many as are free, so that any number of groups leaves some to another."""
        own = self._counts.own(group)
        if group == self._unlimited:
            return own < self._limits.connections_max
        free = self._grouped_max - (self.count - self._strangers_count)
        return own < free and self._counts.total(group) < self._limits.connections_per_group_max

    def _close_one(self, slots: dict[ConnectionSlot, None]) -> None:
        """Closes the oldest connection whose client could continue. If all wait for the server, the newest: it has
        waited for the shortest time, and has the longest to wait."""
        self._end(next((slot for slot in slots if not slot.awaits_server), next(reversed(slots))))

    def _end(self, slot: ConnectionSlot) -> None:
        # Now, as the connection may end later.
        self._forget(slot)
        slot.is_counted = False
        slot.close()

    def _count(self, slot: ConnectionSlot, more: int) -> None:
        if not more:
            return
        if slot.group:
            self._count_bytes(slot.group, more)
            return
        self._strangers_bytes_sum += more
        now = self._strangers_bytes.get(slot.network, 0) + more
        if now:
            self._strangers_bytes[slot.network] = now
        else:
            del self._strangers_bytes[slot.network]

    def _forget(self, slot: ConnectionSlot) -> None:
        if not slot.is_counted:
            return
        self._count(slot, -slot.held_bytes)
        if not slot.group:
            own = self._strangers[slot.network]
            del own[slot]
            if not own:
                del self._strangers[slot.network]
            self._strangers_count -= 1
            return
        self._counts.add(slot.group, -1)
        members = self._groups[slot.group]
        del members[slot]
        if not members:
            del self._groups[slot.group]


def _held_bytes(slot: ConnectionSlot) -> int:
    return slot.held_bytes


def network_of(address: str) -> str:
    """The network whose connections are counted together."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return parsed.packed[:IPV6_NETWORK_BYTES].hex()
