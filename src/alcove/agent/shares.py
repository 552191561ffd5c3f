"""Shares of what a node has a fixed number of. Pure: no I/O.

Shares are max-min fair: whoever wants less than an equal share gets all of it, and the others get equal parts of the
rest. So nobody can take what another one with few wishes needs, and nothing is left unused meanwhile.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

_Owner = TypeVar("_Owner", bound=Hashable)
_Request = TypeVar("_Request", bound=Hashable)

Amounts = tuple[int, ...]
"""One amount for each pool."""


class Pool(Struct, frozen=True):
    capacity: int
    """What all owners together may have."""
    owner_max: int
    """What one owner may have, even if nobody else wants anything."""


def fair_share(wanted: Iterable[int], capacity: int) -> int:
    """The largest amount that every owner may have, so that all together have at most `capacity`."""
    remaining, amounts = capacity, sorted(wanted)
    for position, amount in enumerate(amounts):
        owners = len(amounts) - position
        if amount * owners > remaining:
            return remaining // owners
        remaining -= amount
    return capacity


def shares(totals: Iterable[Amounts], pools: Sequence[Pool]) -> Amounts:
    """What each owner may have of each pool. `totals` is what the owners want."""
    wanted = list(totals)
    return tuple(
        min(pool.owner_max, fair_share((min(each[index], pool.owner_max) for each in wanted), pool.capacity))
        for index, pool in enumerate(pools)
    )


def is_within(amounts: Amounts, share: Amounts) -> bool:
    return all(amount <= most for amount, most in zip(amounts, share, strict=True))


def add(one: Amounts, other: Amounts) -> Amounts:
    return tuple(first + second for first, second in zip(one, other, strict=True))


def over_share(requests: Mapping[_Request, Amounts], share: Amounts) -> frozenset[_Request]:
    """The requests of one owner that do not fit into its share; earlier ones come first."""
    used: Amounts = (0,) * len(share)
    refused: set[_Request] = set()
    for request, amounts in requests.items():
        if is_within(together := add(used, amounts), share):
            used = together
        else:
            refused.add(request)
    return frozenset(refused)
