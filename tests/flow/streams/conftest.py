"""A real API server, and a real node's server over real containers."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.runtime.oci import OciRuntime
from alcove.controllers.apiservices import ApiServiceAvailability
from alcove.controllers.garbage.aggregated import AggregatedGarbage
from alcove.controllers.namespaces import NamespaceController
from alcove.testing.aggregated_api import AggregatedApi
from alcove.testing.containers import ContainerLab, working_flavor
from alcove.testing.controllers import RunningControllers
from alcove.testing.loopback_pods import LoopbackRig
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import LocalServer

_NUMBERS = count()
"""A server remembers of a node for some seconds what it uses: every test has its own."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    # Tenants' webhooks may be on loopback, where the tests' are.
    with LocalServer(tmp_path_factory.mktemp("streams"), "--webhook-network", "127.0.0.0/8") as running:
        running.make_tenant("acme")
        running.make_tenant("beta")
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users than root may pass through."""
    with TemporaryDirectory(prefix="alcove-streams-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


async def lab_of(handler: str, folder: Path) -> ContainerLab:
    flavor, why = await working_flavor(handler)
    if flavor is None:
        pytest.skip(why)
    return ContainerLab(OciRuntime(flavor, folder / "run", Cgroups.of_machine()), folder)


@pytest.fixture
async def rig(server: LocalServer, folder: Path) -> AsyncIterator[NodeRig]:
    """Pods in crun."""
    async with (
        await lab_of("crun", folder) as lab,
        NodeRig(server, lab, f"worker-{next(_NUMBERS)}") as started,
    ):
        yield started
        started.forget_pods()


@pytest.fixture(params=["crun", "gvisor"])
async def any_rig(
    request: pytest.FixtureRequest, server: LocalServer, folder: Path
) -> AsyncIterator[NodeRig]:
    """Pods in each runtime that works here."""
    async with (
        await lab_of(request.param, folder) as lab,
        NodeRig(server, lab, f"worker-{next(_NUMBERS)}") as started,
    ):
        yield started
        started.forget_pods()


@pytest.fixture(scope="module")
def availability(server: LocalServer) -> Iterator[None]:
    controllers = (ApiServiceAvailability, NamespaceController, AggregatedGarbage)
    with RunningControllers(server.admin_kubeconfig, controllers):
        yield


@pytest.fixture
async def api(server: LocalServer, folder: Path, availability: None) -> AsyncIterator[AggregatedApi]:
    lab = ContainerLab(HollowRuntime(), folder)
    async with LoopbackRig(server, lab, f"things-{next(_NUMBERS)}") as rig:
        made = AggregatedApi(server, rig)
        yield made
        rig.forget_pods()
        made.unregister()
