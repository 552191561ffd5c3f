"""How many streams a tenant may have on a node."""

import pytest

from alcove.agent.server.stream_slots import StreamSlots
from alcove.api.errors import TooManyRequests


async def test_one_tenants_streams_leave_some_for_another() -> None:
    slots = StreamSlots(8, "captures")
    taken = 0
    with pytest.raises(TooManyRequests, match="too many captures on the node"):
        for _ in range(9):
            await slots.enter("red")
            taken += 1
    assert 0 < taken <= 4
    await slots.enter("blue")
    slots.leave("red")
    await slots.enter("red")
