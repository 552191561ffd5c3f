"""Lists the stalls of an event loop (`alcove.component.stall_recorder`) by what its thread did.

Those come first that took the most time apart from waiting for a core, which a busy machine does to everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from alcove.component.stall_recorder import Stall

LISTED_MAX = 15
FRAMES_SHOWN = 6
_LOOP, _WAITING = "MainThread", ("threading.py:", "concurrent/futures/thread.py:")


def report(stalls: Iterable[Stall]) -> Iterator[str]:
    groups: defaultdict[tuple[str, ...], list[Stall]] = defaultdict(list)
    for stall in stalls:
        groups[_where(stall.stacks.get(_LOOP, []))].append(stall)
    ordered = sorted(groups.items(), key=lambda each: -sum(map(_own_ms, each[1])))
    for frames, found in ordered[:LISTED_MAX]:
        worst = max(found, key=_own_ms)
        yield (
            f"  stalled {len(found)} times for {sum(stall.ms for stall in found):.0f} ms, without waiting for a core "
            f"{sum(map(_own_ms, found)):.0f}; the worst {worst.ms:.0f} ms: computed {worst.computed_ms:.0f}, waited for a core "
            f"{worst.queued_ms:.0f}, other threads computed {worst.others_ms:.0f}"
        )
        yield from (f"      {frame}" for frame in frames or ("no frame of this program",))
        for name, stack in worst.stacks.items():
            if name != _LOOP and stack and not any(each in stack[0] for each in _WAITING):
                yield f"    beside it {name}: {' < '.join(_where(stack)[:3])}"


def _own_ms(stall: Stall) -> float:
    return max(stall.ms - stall.queued_ms, 0.0)


def _where(stack: list[str]) -> tuple[str, ...]:
    """The innermost frames, without line numbers of the frames that called them."""
    return tuple(stack[:1] + [_without_line(each) for each in stack[1:FRAMES_SHOWN]])


def _without_line(frame: str) -> str:
    place, _, function = frame.partition(" ")
    return f"{place.rpartition(':')[0]} {function}"
