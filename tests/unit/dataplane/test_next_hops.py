from ipaddress import IPv4Address

import pytest

from alcove.dataplane.next_hops import NextHops

GATEWAY = IPv4Address("10.0.0.1")


class Kernel:
    def __init__(self) -> None:
        self.asked: list[IPv4Address] = []
        self.routes: dict[IPv4Address, IPv4Address] = {}

    def read(self, node: IPv4Address) -> IPv4Address | None:
        self.asked.append(node)
        return self.routes.get(node)


def addresses(count: int) -> list[IPv4Address]:
    return [IPv4Address("10.1.0.0") + number for number in range(count)]


@pytest.mark.parametrize("count", [30, 300])
def test_the_kernel_is_asked_for_a_new_node_not_for_all(count: int) -> None:
    kernel = Kernel()
    hops, nodes = NextHops(kernel.read), addresses(count)
    kernel.routes = dict.fromkeys(addresses(count + 1), GATEWAY)
    assert hops.of(nodes) == dict.fromkeys(nodes, GATEWAY)
    kernel.asked.clear()
    more = addresses(count + 1)
    for _ in range(5):
        assert hops.of(more) == dict.fromkeys(more, GATEWAY)
    assert kernel.asked == more[-1:]


def test_nodes_that_leave_and_routes_that_change_or_come() -> None:
    kernel = Kernel()
    hops, (one, two) = NextHops(kernel.read), addresses(2)
    kernel.routes = {one: one}
    assert hops.of([one, two]) == {one: one}
    kernel.routes = {one: GATEWAY, two: two}
    assert hops.of([one, two]) == {one: one, two: two}, "what had no route is asked for again"
    hops.forget()
    assert hops.of([one, two]) == {one: GATEWAY, two: two}
    kernel.routes = {one: one, two: two}
    assert hops.of([two]) == {two: two}
    assert hops.of([one, two]) == {one: one, two: two}, "what has left is asked for again"
