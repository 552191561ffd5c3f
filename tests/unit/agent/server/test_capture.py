"""Who may capture at the same time on a node."""

import pytest

from alcove.agent.server.capture import CAPTURES_MAX, CaptureSlots
from alcove.api.errors import TooManyRequests


async def test_one_tenants_captures_leave_some_for_another() -> None:
    slots = CaptureSlots()
    taken = 0
    with pytest.raises(TooManyRequests):
        for _ in range(CAPTURES_MAX + 1):
            await slots.enter("red")
            taken += 1
    assert 0 < taken <= CAPTURES_MAX // 2
    await slots.enter("blue")
    slots.leave("red")
    await slots.enter("red")
