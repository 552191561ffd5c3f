"""The open connections of a server, counted: by client address until a request is authenticated, then by group.

A group is whatever the server's owner accounts connections to: the API server's groups are tenants. One that has
too many loses only its own: a further connection of a group is refused, and a new connection from an address
closes one of that address that is not authenticated: the oldest whose client could continue and does not. Agents,
proxies and quiet clients that authenticate at once are therefore served behind an address from which others open
connections and say nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address

from alcove.http.limits import HttpLimits

IPV6_NETWORK_BYTES = 8
"""Addresses of one IPv6 network (/64) count as one: a single machine may have all of them."""

SHARE_OF_RESERVES = 8
"""Of few connections in all, at most an eighth is kept for new ones, and as many for the unlimited group."""


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


class ConnectionTable:
    def __init__(self, limits: HttpLimits, unlimited: str | None = None, *, has_groups: bool = True) -> None:
        """`unlimited`: a group that is bounded only by the number of all connections, and for which some are
        reserved."""
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
        self._groups: dict[str, int] = {}
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
        if self._groups.get(group, 0) >= self._share(group):
            return False
        self._forget(slot)
        slot.group = group
        self._groups[group] = self._groups.get(group, 0) + 1
        return True

    def closed(self, slot: ConnectionSlot) -> None:
        """Call it once for each slot."""
        self._forget(slot)
        slot.is_closed, slot.close = True, _nothing
        self.count -= 1

    def close_expired(self, now: float) -> None:
        """Closes connections without an authenticated request in time."""
        for slots in list(self._strangers.values()):
            for slot in list(slots):
                if slot.deadline > now:
                    break
                slot.close()

    def _share(self, group: str) -> int:
        """A group may have at most as many as are free, so that any number of groups leaves some to another."""
        if group == self._unlimited:
            return self._limits.connections_max
        free = self._grouped_max - (self.count - self._strangers_count)
        return min(self._limits.connections_per_group_max, free)

    def _close_one(self, slots: dict[ConnectionSlot, None]) -> None:
        """Closes the oldest connection whose client could continue. If all wait for the server, the newest: it has
        waited for the shortest time, and has the longest to wait."""
        chosen = next((slot for slot in slots if not slot.awaits_server), next(reversed(slots)))
        # Now, as the connection may end later.
        self._forget(chosen)
        chosen.is_counted = False
        chosen.close()

    def _forget(self, slot: ConnectionSlot) -> None:
        if not slot.is_counted:
            return
        if not slot.group:
            own = self._strangers[slot.network]
            del own[slot]
            if not own:
                del self._strangers[slot.network]
            self._strangers_count -= 1
            return
        self._groups[slot.group] -= 1
        if not self._groups[slot.group]:
            del self._groups[slot.group]


def network_of(address: str) -> str:
    """The network whose connections are counted together."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return parsed.packed[:IPV6_NETWORK_BYTES].hex()
