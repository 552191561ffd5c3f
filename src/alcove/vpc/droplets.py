"""The droplets that can be assigned duties and the number of duties of each, updated with every change of an
object."""

from __future__ import annotations

from collections import Counter

from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.vpc_cache import VpcCache, spec_of


def is_live(droplet: Object) -> bool:
    return is_provisioned(droplet) and not is_going(droplet)


class DropletSet:
    def __init__(self, cache: VpcCache) -> None:
        self.live: dict[str, Object] = {}
        """By name."""
        self.duties: Counter[str] = Counter()
        """Bouncers and dividers, by droplet."""
        cache.droplets.subscribe(self._droplet_changed)
        cache.bouncers.subscribe(self._duty_changed)
        cache.dividers.subscribe(self._duty_changed)

    def _droplet_changed(self, change: ObjectChange) -> None:
        if change.kind is not ChangeType.DELETED and is_live(change.obj):
            self.live[change.key.name] = change.obj
        else:
            self.live.pop(change.key.name, None)

    def _duty_changed(self, change: ObjectChange) -> None:
        if (old := change.old) is not None:
            droplet = spec_of(old, "droplet")
            self.duties[droplet] -= 1
            if not self.duties[droplet]:
                del self.duties[droplet]
        if change.kind is not ChangeType.DELETED:
            self.duties[spec_of(change.obj, "droplet")] += 1
