"""What is true of all controllers together."""

import time

from alcove.api.ids import SYSTEM
from alcove.client.client import Selection
from alcove.client.events import Recorder
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.resources import NODES
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import Controller, Setup
from alcove.controllers.everything import Everything


def made(planes: Planes) -> list[Controller]:
    recorder = Recorder(planes.client, time.time)
    everything = Everything(planes)
    setup = Setup(planes=planes, everything=everything, recorder=recorder, clock=time.time, authorities={})
    return [controller(setup) for controller in CONTROLLERS]


async def test_names_are_each_ones_own() -> None:
    async with Planes() as planes:
        controllers = made(planes)
    assert len({each.name for each in controllers}) == len(CONTROLLERS) == len(set(CONTROLLERS))


async def test_nodes_are_ring0s_alone() -> None:
    """A dedicated tenant's plane may tell of nodes what it likes."""
    async with Planes() as planes:
        made(planes)
        nodes = [each for each in planes.mirrors() if each.selection.resource == NODES]
        assert nodes == [planes.mirror(Selection(NODES), tenant=SYSTEM, only=HOME)]
