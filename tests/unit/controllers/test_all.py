"""What is true of all controllers together."""

import time

from alcove.api.ids import SYSTEM
from alcove.client.client import ListSelection
from alcove.client.events import EventRecorder
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.resources import NODES
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import Controller, ControllerContext
from alcove.controllers.metadata_cache import MetadataCache


def made(planes: Planes) -> list[Controller]:
    recorder = EventRecorder(planes.client, time.time)
    metadata_cache = MetadataCache(planes)
    context = ControllerContext(
        planes=planes, metadata_cache=metadata_cache, recorder=recorder, clock=time.time, authorities={}
    )
    return [controller(context) for controller in CONTROLLERS]


async def test_names_are_each_ones_own() -> None:
    async with Planes() as planes:
        controllers = made(planes)
    assert len({each.name for each in controllers}) == len(CONTROLLERS) == len(set(CONTROLLERS))


async def test_nodes_are_ring0s_alone() -> None:
    """A dedicated tenant's plane may report any nodes."""
    async with Planes() as planes:
        made(planes)
        nodes = [each for each in planes.mirrors() if each.selection.resource == NODES]
        assert nodes == [planes.mirror(ListSelection(NODES), tenant=SYSTEM, only=HOME)]
