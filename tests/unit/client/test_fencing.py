"""The fence of a plane, on a real server: the leader takes it; the previous leader can neither write nor take
it back."""

from itertools import count

import pytest

from alcove.api.errors import AlreadyExists, ApiError, Conflict
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client import fencing
from alcove.client.client import Client
from alcove.client.errors import NotPermitted
from alcove.client.fencing import is_fenced_off
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, LEASES

_NUMBERS = count()


@pytest.fixture
def lease() -> str:
    return f"plane-fence-{next(_NUMBERS)}"


def config() -> Object:
    return {"metadata": {"name": f"behind-a-fence-{next(_NUMBERS)}", "namespace": "default"}}


async def yes() -> None:
    pass


async def no() -> None:
    raise NotPermitted("another leads")


async def test_only_the_holder_of_the_fence_can_write(pool: HttpPool, client: Client, lease: str) -> None:
    first, second = (Client(pool, fence=f"{lease}/{name}") for name in ("first", "second"))
    with pytest.raises(Conflict) as early:
        await first.create(SYSTEM, CONFIG_MAPS, config())
    assert is_fenced_off(early.value)
    await fencing.take(client, f"{lease}/first", yes)
    await first.create(SYSTEM, CONFIG_MAPS, config())
    await fencing.take(client, f"{lease}/second", yes)
    await second.create(SYSTEM, CONFIG_MAPS, config())
    with pytest.raises(Conflict) as late:
        await first.create(SYSTEM, CONFIG_MAPS, config())
    assert is_fenced_off(late.value)


async def test_other_conflicts_are_no_fence(client: Client) -> None:
    made = await client.create(SYSTEM, CONFIG_MAPS, config())
    with pytest.raises(AlreadyExists) as there:
        await client.create(SYSTEM, CONFIG_MAPS, made)
    assert not is_fenced_off(there.value)


async def test_a_process_that_does_not_lead_cannot_take_the_fence(client: Client, lease: str) -> None:
    with pytest.raises(NotPermitted):
        await fencing.take(client, f"{lease}/first", no)
    await fencing.take(client, f"{lease}/second", yes)
    with pytest.raises(NotPermitted):
        await fencing.take(client, f"{lease}/first", no)
    await fencing.take(client, f"{lease}/second", no)  # It has it: there is nothing to ask.


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_paused_process_cannot_take_the_fence_back(
    client: Client, lease: str, is_there: bool
) -> None:
    """The home plane confirmed that the first process leads; then it was paused, and the second led."""
    if is_there:
        await fencing.take(client, f"{lease}/before", yes)

    async def overtaken() -> None:
        await fencing.take(client, f"{lease}/second", yes)

    with pytest.raises(ApiError):
        await fencing.take(client, f"{lease}/first", overtaken)
    found = await client.get(SYSTEM, LEASES, lease, namespace=fencing.NAMESPACE)
    assert found["spec"]["holderIdentity"] == "second"
