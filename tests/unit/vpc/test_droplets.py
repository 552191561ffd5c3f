"""The number of duties of each droplet follows the objects: those with the fewest come first, and droplets
without duties are not kept."""

import asyncio
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.vpc.droplets import DropletSet
from alcove.vpc.vpc_cache import VpcCache


def duty(droplet: str) -> Object:
    return {"metadata": {"name": "d"}, "spec": {"droplet": droplet}}


def encoded(droplet: str) -> bytes:
    return msgspec.json.encode(duty(droplet))


async def test_a_droplet_is_forgotten_with_its_last_duty() -> None:
    async with Planes() as planes:
        droplets = DropletSet(VpcCache(planes, lambda: 0.0))
        key = ObjectKey(HOME, SYSTEM, "", "d")
        droplets._duty_changed(ObjectChange(ChangeType.ADDED, key, duty("a")))
        droplets._duty_changed(ObjectChange(ChangeType.UPDATED, key, duty("b"), encoded("a")))
        assert dict(droplets.duties) == {"b": 1}
        droplets._duty_changed(ObjectChange(ChangeType.DELETED, key, duty("b"), encoded("b")))
        assert dict(droplets.duties) == {}


def droplet(status: str) -> Object:
    return {"metadata": {"name": "n"}, "spec": {"status": status}}


NAMES = ("a", "b", "c", "")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("droplet"), st.sampled_from(NAMES[:3]), st.booleans()),
        st.tuples(st.just("duty"), st.integers(0, 5), st.sampled_from([*NAMES, None])),
    ),
    max_size=40,
)


@given(STEPS)
def test_live_droplets_are_ordered_by_their_number_of_duties(
    steps: list[tuple[str, str | int, bool | str | None]],
) -> None:
    async def scenario() -> None:
        async with Planes() as planes:
            droplets = DropletSet(VpcCache(planes, lambda: 0.0))
            live: set[str] = set()
            placed: dict[str, str] = {}
            for kind, name, value in steps:
                key = ObjectKey(HOME, SYSTEM, "", str(name))
                if kind == "droplet":
                    (live.add if value else live.discard)(str(name))
                    status = "Provisioned" if value else "NotReady"
                    droplets._droplet_changed(ObjectChange(ChangeType.UPDATED, key, droplet(status)))
                    continue
                old = placed.pop(str(name), None)
                body = encoded(old) if old is not None else b""
                if isinstance(value, str):
                    placed[str(name)] = value
                    change = ChangeType.ADDED if old is None else ChangeType.UPDATED
                    droplets._duty_changed(ObjectChange(change, key, duty(value), body))
                elif old is not None:
                    droplets._duty_changed(ObjectChange(ChangeType.DELETED, key, duty(old), body))
            load = Counter(each for each in placed.values() if each)
            assert dict(droplets.duties) == load
            ordered = list(droplets.by_load())
            assert set(ordered) == live
            assert [load[each] for each in ordered] == sorted(load[each] for each in live)

    asyncio.run(scenario())
