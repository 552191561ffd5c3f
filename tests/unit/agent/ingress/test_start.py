"""The ingress proxy as one task."""

import asyncio
import socket
from collections.abc import Callable, Mapping

from alcove.agent.ingress.gateway_dialer import GatewaySource
from alcove.agent.ingress.start import bind, noting, serve
from alcove.agent.ingress.targets import TenantServices
from alcove.api.ids import TenantId
from alcove.client.events import EventRecorder, PendingEvent
from alcove.client.keys import HOME, TenantKey
from alcove.client.planes import Planes
from alcove.network.ingress.ingress_spec import DesiredIngress
from alcove.testing.claims import free_port


class Nothing:
    """A node without networks."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []

    def present(self) -> Mapping[TenantKey, TenantServices]:
        return {}

    def exit_of(self, _space: TenantKey, _network: str) -> GatewaySource | None:
        return None

    def open_gateway(self, _vni: int) -> int:
        raise AssertionError("nobody asks")

    def listen(self, on_change: Callable[[], None]) -> None:
        self.listeners.append(on_change)


def test_a_port_in_use_is_skipped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert bind("127.0.0.1", taken.getsockname()[1]) == []
    assert bind("127.0.0.1", 0) == []
    [made] = bind("::1", free_port())
    made.close()


async def test_a_node_without_networks_answers_that_there_is_nothing() -> None:
    port, networks = free_port(), Nothing()
    async with Planes() as planes:
        running = asyncio.create_task(serve(planes, networks, lambda *_: None, bind("127.0.0.1", port), []))
        for _ in range(3_000):
            await asyncio.sleep(0.01)
            if networks.listeners:
                break
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: nobody.example\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404")
        writer.close()
        for on_change in networks.listeners:
            on_change()
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


def test_warnings_are_recorded_as_events_of_the_ingress() -> None:
    events: list[PendingEvent] = []

    class Heard(EventRecorder):
        def record(self, what: PendingEvent) -> None:
            events.append(what)

    def nobody(_plane: object) -> object:
        raise AssertionError("nothing is written")

    wanted = DesiredIngress("2026", "u", "shop", "web", "default", (), None, ())
    note = noting(Heard(nobody, lambda: 0.0), "n1")  # type: ignore[arg-type]
    note(TenantKey(HOME, TenantId("blue")), wanted, "CertificateUnusable", "why")
    assert (events[0].tenant, events[0].reason, events[0].involved["name"]) == (
        "blue",
        "CertificateUnusable",
        "web",
    )
