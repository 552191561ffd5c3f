"""The droplets that can be assigned duties and the number of duties of each, updated with every change of an
object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.vpc.placement import NOWHERE
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.vpc_cache import VpcCache, spec_of


def is_live(droplet: Object) -> bool:
    return is_provisioned(droplet) and not is_going(droplet)


class DropletSet:
    def __init__(self, cache: VpcCache) -> None:
        self.live: dict[str, Object] = {}
        """By name."""
        self.duties: Counter[str] = Counter()
        """The number of bouncers and dividers, by droplet."""
        self._by_load: dict[int, dict[str, None]] = {}
        """The live droplets by their number of duties."""
        cache.droplets.subscribe(self._droplet_changed)
        cache.bouncers.subscribe(self._duty_changed)
        cache.dividers.subscribe(self._duty_changed)

    def by_load(self) -> Iterator[str]:
        """The live droplets, those with the fewest duties first. Duties are spread evenly, so few numbers of them
        occur, however many droplets there are."""
        for load in sorted(self._by_load):
            yield from self._by_load[load]

    def _droplet_changed(self, change: ObjectChange) -> None:
        name = change.key.name
        if change.kind is not ChangeType.DELETED and is_live(change.obj):
            if name not in self.live:
                self._by_load.setdefault(self.duties[name], {})[name] = None
            self.live[name] = change.obj
        elif self.live.pop(name, None) is not None:
            self._leave(self.duties[name], name)

    def _duty_changed(self, change: ObjectChange) -> None:
        before = spec_of(change.old, "droplet") if change.old is not None else NOWHERE
        now = spec_of(change.obj, "droplet") if change.kind is not ChangeType.DELETED else NOWHERE
        if before != now:
            self._count(before, -1)
            self._count(now, 1)

    def _count(self, droplet: str, by: int) -> None:
        if droplet == NOWHERE:
            return
        load = self.duties[droplet]
        self.duties[droplet] += by
        if not self.duties[droplet]:
            del self.duties[droplet]
        if droplet in self.live:
            self._leave(load, droplet)
            self._by_load.setdefault(load + by, {})[droplet] = None

    def _leave(self, load: int, droplet: str) -> None:
        droplets = self._by_load[load]
        del droplets[droplet]
        if not droplets:
            del self._by_load[load]
