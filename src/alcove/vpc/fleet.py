"""The droplets that can be given duties, and how many each has: counted as objects come and go."""

from __future__ import annotations

from collections import Counter

from alcove.api.objects import Object
from alcove.client.changes import Change, Kind
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.world import World, spec_of


def is_live(droplet: Object) -> bool:
    return is_provisioned(droplet) and not is_going(droplet)


class Fleet:
    def __init__(self, world: World) -> None:
        self.live: dict[str, Object] = {}
        """By name."""
        self.duties: Counter[str] = Counter()
        """Bouncers and dividers, by droplet."""
        world.droplets.subscribe(self._droplet_changed)
        world.bouncers.subscribe(self._duty_changed)
        world.dividers.subscribe(self._duty_changed)

    def _droplet_changed(self, change: Change) -> None:
        if change.kind is not Kind.DELETED and is_live(change.obj):
            self.live[change.key.name] = change.obj
        else:
            self.live.pop(change.key.name, None)

    def _duty_changed(self, change: Change) -> None:
        if (old := change.old) is not None:
            self.duties[spec_of(old, "droplet")] -= 1
        if change.kind is not Kind.DELETED:
            self.duties[spec_of(change.obj, "droplet")] += 1
