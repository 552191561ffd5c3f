"""What a hostile pod may send, each with the reason for which it is dropped. Nothing of it arrives anywhere."""

import random
from collections.abc import Iterator

import pytest

from alcove.dataplane import links
from alcove.dataplane.drops import DropReason
from alcove.dataplane.namespaces import inside
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.packets import (
    ACK,
    BROADCAST,
    FIN,
    ROUTER_MAC,
    RST,
    SYN,
    Tap,
    arp,
    ethernet,
    icmp,
    icmp6,
    ipv4,
    ipv6,
    neighbor_solicit,
    run_once,
    tcp,
    udp,
    vxlan,
)  # fmt: skip
from alcove.testing.probes import ping
from alcove.testing.server import wait_until

VNI, OTHER_VNI = 5001, 5002
ME, VICTIM, FAR = "10.0.1.11", "10.0.1.12", "10.0.1.13"
ME6, VICTIM6 = "fd00:0:0:1::11", "fd00:0:0:1::12"
NODE = "192.168.77.11"
MARK = b"hostile-mark"
MAC, OTHER_MAC = "0e:aa:aa:aa:aa:01", "0e:aa:aa:aa:aa:02"
SHOT, REDIRECT = 2, 7


class Arena:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.network, self.other = LabNetwork(VNI, pods=[]), LabNetwork(OTHER_VNI, pods=[])
        node, far = lab.nodes
        self.hostile = node.add_pod("hostile", VNI, f"{ME}/24", f"{ME6}/64")
        self.victim = node.add_pod("victim", VNI, f"{VICTIM}/24", f"{VICTIM6}/64")
        self.far = far.add_pod("far", VNI, f"{FAR}/24")
        self.network.pods += [self.hostile, self.victim, self.far]
        self.other.pods.append(node.add_pod("stranger", OTHER_VNI, f"{VICTIM}/24", f"{VICTIM6}/64"))
        apply_networks(lab, self.network, self.other)
        self.gun = Tap(self.hostile.namespace, "eth0")
        watched = (self.victim, self.far, self.other.pods[0], node, far)
        self.watchers = [Tap(one.namespace, "eth0") for one in watched]

    def frame(
        self, payload: bytes, kind: int = 0x0800, source: str | None = None, target: str = ROUTER_MAC
    ) -> bytes:
        return ethernet(source or self.hostile.veth.mac, target, kind, payload)


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Lab(2) as lab:
        yield Arena(lab)


def datagram(source: str = ME, target: str = VICTIM, **more: int) -> bytes:
    return udp(source, target, 1000, 2000, MARK, **more)


IP4: dict[str, tuple[bytes, DropReason]] = {
    "another pod's address": (ipv4(VICTIM, FAR, 17, datagram(VICTIM, FAR)), DropReason.SPOOFED_ADDRESS),
    "an address without endpoint": (ipv4("10.0.1.200", VICTIM, 17, datagram("10.0.1.200")), DropReason.SPOOFED_ADDRESS),
    "the gateway's address": (ipv4("10.0.1.1", VICTIM, 17, datagram("10.0.1.1")), DropReason.SPOOFED_ADDRESS),
    "a node's address": (ipv4(NODE, VICTIM, 17, datagram(NODE)), DropReason.SPOOFED_ADDRESS),
    "no address": (ipv4("0.0.0.0", VICTIM, 17, datagram("0.0.0.0")), DropReason.SPOOFED_ADDRESS),
    "to a node": (ipv4(ME, NODE, 17, datagram(target=NODE)), DropReason.NO_ROUTE),
    "a tunnel packet to a node": (
        ipv4(ME, NODE, 17, udp(ME, NODE, 5000, 4789, vxlan(OTHER_VNI, ethernet(MAC, ROUTER_MAC, 0x0800, ipv4(VICTIM, VICTIM, 17, datagram()))))),
        DropReason.NO_ROUTE,
    ),
    "to loopback": (ipv4(ME, "127.0.0.1", 17, datagram(target="127.0.0.1")), DropReason.MARTIAN),
    "to no address": (ipv4(ME, "0.0.0.0", 17, datagram(target="0.0.0.0")), DropReason.MARTIAN),
    "reserved": (ipv4(ME, "240.0.0.1", 17, datagram(target="240.0.0.1")), DropReason.MARTIAN),
    "multicast": (ipv4(ME, "224.0.0.251", 17, datagram(target="224.0.0.251")), DropReason.MULTICAST),
    "broadcast": (ipv4(ME, "255.255.255.255", 17, datagram(target="255.255.255.255")), DropReason.MULTICAST),
    "metadata service": (ipv4(ME, "169.254.169.254", 17, datagram(target="169.254.169.254")), DropReason.NO_ROUTE),
    "options": (ipv4(ME, VICTIM, 17, datagram(), options=b"\x94\x04\0\0"), DropReason.IP_OPTIONS),
    "source route": (ipv4(ME, VICTIM, 17, datagram(), options=b"\x83\x07\x04\x0a\0\x01\x0d\0"), DropReason.IP_OPTIONS),
    "short header": (ipv4(ME, VICTIM, 17, datagram(), header_words=4), DropReason.MALFORMED),
    "version 5": (b"\x55" + ipv4(ME, VICTIM, 17, datagram())[1:], DropReason.MALFORMED),
    "length zero": (ipv4(ME, VICTIM, 17, datagram(), length=0), DropReason.BAD_LENGTH),
    "length of less than the header": (ipv4(ME, VICTIM, 17, datagram(), length=19), DropReason.BAD_LENGTH),
    "length of more than there is": (ipv4(ME, VICTIM, 17, datagram(), length=9000), DropReason.BAD_LENGTH),
    "no UDP header": (ipv4(ME, VICTIM, 17, MARK[:4]), DropReason.TRUNCATED),
    "no TCP header": (ipv4(ME, VICTIM, 6, MARK), DropReason.TRUNCATED),
    "no ICMP header": (ipv4(ME, VICTIM, 1, b"\x08\0"), DropReason.TRUNCATED),
    "TCP header of 16 bytes": (ipv4(ME, VICTIM, 6, tcp(ME, VICTIM, 1, 2, SYN, MARK, words=4)), DropReason.MALFORMED),
    "SYN and FIN": (ipv4(ME, VICTIM, 6, tcp(ME, VICTIM, 1, 2, SYN | FIN, MARK)), DropReason.MALFORMED),
    "SYN and RST": (ipv4(ME, VICTIM, 6, tcp(ME, VICTIM, 1, 2, SYN | RST, MARK)), DropReason.MALFORMED),
    "redirect": (ipv4(ME, VICTIM, 1, icmp(5, 1, 1, MARK)), DropReason.BAD_ICMP),
    "router advertisement": (ipv4(ME, VICTIM, 1, icmp(9, 0, 1, MARK)), DropReason.BAD_ICMP),
    "address mask request": (ipv4(ME, VICTIM, 1, icmp(17, 0, 1, MARK)), DropReason.BAD_ICMP),
    "ICMPv6 in IPv4": (ipv4(ME, VICTIM, 58, icmp(8, 0, 1, MARK)), DropReason.BAD_ICMP),
    "the bit that must be zero": (ipv4(ME, VICTIM, 17, datagram(), fragment=0x8000), DropReason.MALFORMED),
    "fragment over a TCP header": (ipv4(ME, VICTIM, 6, MARK * 4, fragment=0x0001), DropReason.TINY_FRAGMENT),
    "tiny first fragment": (ipv4(ME, VICTIM, 6, MARK, fragment=0x2000), DropReason.TINY_FRAGMENT),
    "tiny fragment": (ipv4(ME, VICTIM, 17, MARK[:4], fragment=0x2000), DropReason.TINY_FRAGMENT),
    "fragment past the end": (ipv4(ME, VICTIM, 1, MARK * 8, fragment=0x1FFF), DropReason.BAD_LENGTH),
}  # fmt: skip

HOP_BY_HOP, ROUTING, FRAGMENT, OPTIONS = 0, 43, 44, 60


def chain(*kinds: int, last: int = 17) -> tuple[int, bytes]:
    """The first header's number, and empty extension headers one after the other."""
    following = [*kinds[1:], last]
    return kinds[0], b"".join(bytes([one, 0]) + b"\x01\x04\0\0\0\0" for one in following)


def extended(*kinds: int) -> bytes:
    first, headers = chain(*kinds)
    return ipv6(ME6, VICTIM6, first, headers + udp(ME6, VICTIM6, 1, 2, MARK))


IP6: dict[str, tuple[bytes, DropReason]] = {
    "another pod's address": (ipv6(VICTIM6, ME6, 17, udp(VICTIM6, ME6, 1, 2, MARK)), DropReason.SPOOFED_ADDRESS),
    "a link-local source": (ipv6("fe80::1", VICTIM6, 17, udp("fe80::1", VICTIM6, 1, 2, MARK)), DropReason.SPOOFED_ADDRESS),
    "no address": (ipv6("::", VICTIM6, 17, udp("::", VICTIM6, 1, 2, MARK)), DropReason.SPOOFED_ADDRESS),
    "an IPv4 address in disguise": (ipv6(ME6, f"::ffff:{VICTIM}", 17, udp(ME6, VICTIM6, 1, 2, MARK)), DropReason.MARTIAN),
    "an IPv4 source in disguise": (ipv6(f"::ffff:{ME}", VICTIM6, 17, udp(ME6, VICTIM6, 1, 2, MARK)), DropReason.MARTIAN),
    "to loopback": (ipv6(ME6, "::1", 17, udp(ME6, "::1", 1, 2, MARK)), DropReason.MARTIAN),
    "to link-local": (ipv6(ME6, "fe80::2", 17, udp(ME6, "fe80::2", 1, 2, MARK)), DropReason.MARTIAN),
    "multicast": (ipv6(ME6, "ff02::1", 17, udp(ME6, "ff02::1", 1, 2, MARK)), DropReason.MULTICAST),
    "routing header": (extended(ROUTING), DropReason.IP_OPTIONS),
    "routing header behind options": (extended(OPTIONS, ROUTING), DropReason.IP_OPTIONS),
    "too many headers": (extended(HOP_BY_HOP, OPTIONS, OPTIONS, OPTIONS, OPTIONS), DropReason.IP_OPTIONS),
    "huge options": (ipv6(ME6, VICTIM6, OPTIONS, bytes([17, 60]) + b"\0" * 486 + MARK), DropReason.IP_OPTIONS),
    "length of more than there is": (ipv6(ME6, VICTIM6, 17, MARK, length=9000), DropReason.BAD_LENGTH),
    "length zero": (ipv6(ME6, VICTIM6, 17, MARK, length=0), DropReason.BAD_LENGTH),
    "tiny first fragment": (ipv6(ME6, VICTIM6, FRAGMENT, b"\x06\0\0\x01\0\0\0\x07" + MARK), DropReason.TINY_FRAGMENT),
    "two fragment headers": (
        ipv6(ME6, VICTIM6, FRAGMENT, b"\x2c\0\0\x01\0\0\0\x07" + b"\x11\0\0\x01\0\0\0\x07" + MARK * 2), DropReason.MALFORMED,
    ),
    "fragment in the middle of options": (
        ipv6(ME6, VICTIM6, FRAGMENT, b"\x3c\0\0\x01\0\0\0\x07" + bytes([43, 0]) + b"\0" * 6 + MARK * 2), DropReason.IP_OPTIONS,
    ),
    "router advertisement": (
        ipv6(ME6, VICTIM6, 58, icmp6(ME6, VICTIM6, 134, b"\0" * 12 + MARK), hops=255), DropReason.NEIGHBOR_IGNORED,
    ),
    "redirect": (ipv6(ME6, VICTIM6, 58, icmp6(ME6, VICTIM6, 137, b"\0" * 36 + MARK), hops=255), DropReason.NEIGHBOR_IGNORED),
    "ICMP in IPv6": (ipv6(ME6, VICTIM6, 1, icmp(8, 0, 1, MARK)), DropReason.BAD_ICMP),
    "UDP with no header": (ipv6(ME6, VICTIM6, 17, MARK[:4]), DropReason.TRUNCATED),
}  # fmt: skip


def assert_dropped(arena: Arena, frame: bytes, reason: DropReason) -> None:
    node = arena.lab.nodes[0]
    before = node.dropped(reason)
    arena.gun.send(frame)
    try:
        # Or more: the kernels of the pods send solicitations in their own time.
        wait_until(lambda: node.dropped(reason) > before)
    except AssertionError:
        pytest.fail(str({name.name: count.packets for name, count in node.plane.drops().items()}))
    for tap in arena.watchers:
        assert tap.catch(MARK, timeout=0.002) is None


@pytest.mark.parametrize("name", IP4)
def test_ipv4(arena: Arena, name: str) -> None:
    packet, reason = IP4[name]
    assert_dropped(arena, arena.frame(packet), reason)


@pytest.mark.parametrize("name", IP6)
def test_ipv6(arena: Arena, name: str) -> None:
    packet, reason = IP6[name]
    assert_dropped(arena, arena.frame(packet, 0x86DD), reason)


def test_frames(arena: Arena) -> None:
    good = ipv4(ME, VICTIM, 17, datagram())
    assert_dropped(arena, arena.frame(good, source=OTHER_MAC), DropReason.SPOOFED_MAC)
    assert_dropped(arena, arena.frame(good, source=arena.victim.veth.mac), DropReason.SPOOFED_MAC)
    assert_dropped(arena, arena.frame(good, kind=0x88B5), DropReason.NOT_IP)
    assert_dropped(arena, arena.frame(good, kind=0x8847), DropReason.NOT_IP)
    assert_dropped(arena, arena.frame(b"\0\x05\x08\0" + good, kind=0x8100), DropReason.NOT_IP)
    assert_dropped(arena, arena.frame(b"\x45" + MARK), DropReason.TRUNCATED)


def test_arp(arena: Arena) -> None:
    me = arena.hostile.veth.mac
    for output, reason in (
        (arp(1, OTHER_MAC, ME, VICTIM), DropReason.SPOOFED_NEIGHBOR),
        (arp(1, me, VICTIM, FAR), DropReason.SPOOFED_NEIGHBOR),
        (arp(1, me, "10.0.1.1", VICTIM), DropReason.SPOOFED_NEIGHBOR),
        (arp(2, me, VICTIM, FAR, OTHER_MAC), DropReason.SPOOFED_NEIGHBOR),
        (arp(1, me, VICTIM, VICTIM), DropReason.SPOOFED_NEIGHBOR),
        (arp(1, me, ME, ME), DropReason.NEIGHBOR_IGNORED),
        (arp(2, me, ME, VICTIM, OTHER_MAC), DropReason.NEIGHBOR_IGNORED),
        (arp(1, me, "0.0.0.0", ME), DropReason.NEIGHBOR_IGNORED),
        (b"\0\x06" + arp(1, me, ME, VICTIM)[2:], DropReason.MALFORMED),
        (arp(1, me, ME, VICTIM)[:20], DropReason.TRUNCATED),
    ):
        assert_dropped(arena, arena.frame(output, 0x0806, target=BROADCAST), reason)


def test_neighbor_discovery(arena: Arena) -> None:
    me = arena.hostile.veth.mac
    advert = (
        b"\x60\0\0\0"
        + bytes.fromhex("fd000000000000010000000000000012")
        + b"\x02\x01"
        + bytes.fromhex(me.replace(":", ""))
    )
    for packet, reason in (
        (neighbor_solicit(VICTIM6, ME6, me), DropReason.SPOOFED_NEIGHBOR),
        (neighbor_solicit("::", ME6, None), DropReason.NEIGHBOR_IGNORED),
        (neighbor_solicit(ME6, ME6, me), DropReason.NEIGHBOR_IGNORED),
        (ipv6(ME6, "ff02::1", 58, icmp6(ME6, "ff02::1", 136, advert), hops=255), DropReason.SPOOFED_NEIGHBOR),
        (neighbor_solicit(ME6, VICTIM6, me)[:60], DropReason.TRUNCATED),
    ):
        assert_dropped(arena, arena.frame(packet, 0x86DD, target="33:33:00:00:00:01"), reason)


def test_valid_neighbour_queries_are_answered(arena: Arena) -> None:
    me = arena.hostile.veth.mac
    with Tap(arena.hostile.namespace, "eth0") as tap:
        tap.send(arena.frame(arp(1, me, ME, VICTIM), 0x0806, target=BROADCAST))
        answer = tap.catch(bytes.fromhex("0001080006040002"))
        assert answer is not None
        assert answer[22:28] == bytes.fromhex(ROUTER_MAC.replace(":", ""))
        tap.send(arena.frame(neighbor_solicit(ME6, VICTIM6, None), 0x86DD))
        answer = tap.catch(b"\x88\x00")
        assert answer is not None
        assert answer[-6:] == bytes.fromhex(ROUTER_MAC.replace(":", ""))


def test_wrong_checksums_reach_no_application(arena: Arena) -> None:
    """They are the receiver's to judge; the data plane neither mends nor minds them."""
    bad = ipv4(ME, VICTIM, 17, datagram(), bad_checksum=True)
    with Tap(arena.hostile.namespace, "eth0") as gun, Tap(arena.victim.namespace, "eth0") as tap:
        gun.send(arena.frame(bad))
        caught = tap.catch(MARK)
        assert caught is not None
        assert caught[14:] == bad


def test_a_forged_tunnel_packet_from_the_underlay_is_refused(arena: Arena) -> None:
    """From a host on the underlay that is no node."""
    node = arena.lab.nodes[0]
    inner = ethernet(MAC, ROUTER_MAC, 0x0800, ipv4(FAR, VICTIM, 17, udp(FAR, VICTIM, 1, 2, MARK)))
    for kind, frame in (
        (DropReason.FOREIGN_TUNNEL, inner),
        (DropReason.FOREIGN_TUNNEL, ethernet(MAC, ROUTER_MAC, 0x88B5, b"\0" * 20)),
    ):
        outer = ipv4(
            "192.168.77.99",
            str(node.address),
            17,
            udp("192.168.77.99", str(node.address), 5000, 4789, vxlan(VNI, frame)),
        )
        with inside(node.namespace):
            device = links.read_link(node.plane.netlink, "eth0")
        assert device is not None
        before = node.dropped(kind)
        with Tap(arena.lab.nodes[1].namespace, "eth0") as wire, Tap(arena.victim.namespace, "eth0") as victim:
            wire.send(ethernet(MAC, device.mac.hex(":"), 0x0800, outer))
            assert victim.catch(MARK, timeout=0.02) is None
        wait_until(lambda: node.dropped(kind) == before + 1)  # noqa: B023 - called at once


def run(pod: NamespacePod, frame: bytes) -> int:
    """One frame through the program at the pod's port, by BPF_PROG_TEST_RUN."""
    plane = pod.node.plane
    with inside(pod.node.namespace):
        link = links.read_link(plane.netlink, pod.veth.name)
        assert link is not None
        context = bytearray(192)
        context[40:44] = link.index.to_bytes(4, "little")
        verdict, _ = run_once(plane.programs.descriptors["from_pod"], frame, bytes(context))
    return verdict


def test_every_truncated_packet_is_dropped_or_redirected(arena: Arena) -> None:
    """No cut-off frame passes to the host's stack: dropped, or sent to where a whole one would be."""
    for packets, kind in ((IP4, 0x0800), (IP6, 0x86DD)):
        for packet, _ in packets.values():
            frame = arena.frame(packet, kind)
            for length in range(60, min(len(frame), 120)):
                assert run(arena.hostile, frame[:length]) in (SHOT, REDIRECT)


def test_frames_that_end_within_the_ip_header_are_truncated(arena: Arena) -> None:
    """BPF_PROG_TEST_RUN takes no such frames; the wire does."""
    node = arena.lab.nodes[0]
    for packet, kind, header in (
        (ipv4(ME, VICTIM, 17, datagram()), 0x0800, 20),
        (extended(OPTIONS), 0x86DD, 40),
    ):
        before = node.dropped(DropReason.TRUNCATED)
        for length in range(header):
            arena.gun.send(arena.frame(packet[:length], kind))
        wait_until(lambda: node.dropped(DropReason.TRUNCATED) == before + header)  # noqa: B023 - called at once


def test_noise_never_passes_to_the_host(arena: Arena) -> None:
    noise = random.Random(7)
    seeds = [arena.frame(ipv4(ME, VICTIM, 17, datagram())), arena.frame(extended(OPTIONS), 0x86DD)]
    seeds += [
        arena.frame(ipv4(ME, VICTIM, 6, tcp(ME, VICTIM, 1, 2, ACK, MARK))),
        arena.frame(arp(1, MAC, ME, VICTIM), 0x0806),
    ]
    for _ in range(4000):
        frame = bytearray(noise.choice(seeds))
        for _ in range(noise.randrange(1, 8)):
            frame[noise.randrange(len(frame))] = noise.randrange(256)
        assert run(arena.hostile, bytes(frame)) in (SHOT, REDIRECT)


def test_after_all_that_honest_traffic_still_flows(arena: Arena) -> None:
    assert ping(arena.hostile.namespace, VICTIM)
    assert ping(arena.hostile.namespace, FAR)
    assert ping(arena.hostile.namespace, VICTIM6)
