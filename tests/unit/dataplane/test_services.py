"""Services as entries: sets are named by their content, direct flows are distinguished."""

from ipaddress import ip_address

from alcove.dataplane.address import pack
from alcove.dataplane.maps import BACKEND, BACKEND_KEY, SERVICE, SERVICE_DIRECT, SERVICE_KEY
from alcove.dataplane.model import DataplaneService, Protocol, ServiceBackend
from alcove.dataplane.services import compile_services, ticks

A, B = ServiceBackend(ip_address("10.0.0.1"), 80), ServiceBackend(ip_address("10.0.0.2"), 80)
VIP = ip_address("172.20.0.1")


def key(vni: int, address: str, port: int, protocol: Protocol = Protocol.TCP) -> bytes:
    return SERVICE_KEY.pack(vni, pack(ip_address(address)), port.to_bytes(2, "big"), protocol)


def test_a_service_names_its_set_and_the_set_its_backends() -> None:
    compiled = compile_services([DataplaneService(5, VIP, 443, Protocol.TCP, (B, A))])
    service = SERVICE.unpack(compiled.services[key(5, "172.20.0.1", 443)])
    assert (service["count"], service["flags"]) == (2, 0)
    members = [
        BACKEND.unpack(compiled.backends[BACKEND_KEY.pack(service["set"], index)]) for index in range(2)
    ]
    assert [one["address"] for one in members] == [pack(A.address), pack(B.address)]
    assert len(compiled.members) == 2


def test_the_order_and_repetition_of_backends_do_not_matter() -> None:
    one = compile_services([DataplaneService(5, VIP, 443, Protocol.TCP, (A, B))])
    other = compile_services([DataplaneService(5, VIP, 443, Protocol.TCP, (B, A, B))])
    assert one == other


def test_backends_are_known_by_their_own_address() -> None:
    compiled = compile_services([DataplaneService(5, VIP, 443, Protocol.TCP, (A,))])
    direct = SERVICE.unpack(compiled.services[key(5, "10.0.0.1", 80)])
    assert direct["flags"] == SERVICE_DIRECT
    assert compiled.answering == {(5, A.address)}


def test_a_service_on_a_backends_address_stays_a_service() -> None:
    """A backend that is itself a service's address: the service wins, whatever the order."""
    front = DataplaneService(5, VIP, 443, Protocol.TCP, (A,))
    behind = DataplaneService(5, A.address, A.port, Protocol.TCP, (B,))
    for order in ([front, behind], [behind, front]):
        assert SERVICE.unpack(compile_services(order).services[key(5, "10.0.0.1", 80)])["flags"] == 0


def test_equal_sets_are_shared_and_networks_are_not() -> None:
    compiled = compile_services(
        [DataplaneService(5, VIP, 1, Protocol.TCP, (A,)), DataplaneService(6, VIP, 1, Protocol.UDP, (A,))]
    )
    assert len(compiled.backends) == 1
    assert compiled.vnis == {5, 6}


def test_no_time_is_none_and_any_time_is_some() -> None:
    assert ticks(0) == 0
    assert ticks(0.1) == 1
    assert ticks(10800) == 10058
