"""The data plane of one node, as used by the agent.

    plane = DataPlane(DataplaneSettings("al0", node, "eth0"))   # loads the programs, or adopts loaded ones
    plane.add_port(veth, namespace)                             # a pod starts: one link, a few entries
    plane.apply(state)                                          # after changes: writes the difference
    plane.resync(state)                                         # periodically, after failures: reads back
    plane.close()                                               # the agent exits; the traffic continues

All state is in the kernel under the instance's name, so a new `DataPlane` of the same instance adopts it. Not
thread-safe; calls never wait for the network.
"""

import errno
import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from msgspec.structs import replace

from alcove.dataplane import links, namespaces
from alcove.dataplane.address import NO_ADDRESS, pack, pack_mac
from alcove.dataplane.apply import Checkpoint, MapChange, RefusedEntries, apply, difference, read_back
from alcove.dataplane.bpf import Map
from alcove.dataplane.build import build, shipped_object
from alcove.dataplane.desired import (
    NO_BULK,
    Entries,
    ObservedKernelState,
    add_port,
    allot_slots,
    bulk_of,
    desired,
    desired_vnis,
    endpoint_key,
    gateway_name,
)
from alcove.dataplane.drops import DropCount, DropReason, read_counts, read_paths
from alcove.dataplane.dry_run import KernelVerdict, MadePacket, dry_run, frame_of, tunnelled
from alcove.dataplane.errors import KernelRefused, ProgramRejected, Unsupported
from alcove.dataplane.flows import NetworkTraffic
from alcove.dataplane.gateways import Gateways
from alcove.dataplane.instance import BPF_ROOT, checked, handle_of, instance_links, remove
from alcove.dataplane.loader import NetworkMemories, Pins, Programs
from alcove.dataplane.maps import (
    CONFIG,
    DROP_COUNT,
    INDEX,
    NETWORK_KEY,
    PORT,
    WORD,
    MapName,
    PathTaken,
    port_key,
)
from alcove.dataplane.meters import NetworkMeters
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Veth
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.next_hops import NextHops
from alcove.dataplane.openings import OpeningRing
from alcove.dataplane.services import ticks
from alcove.dataplane.shaping import shape, unshape
from alcove.dataplane.veths import guard, make_port

log = logging.getLogger(__name__)
ROUTER_MAC = "02:00:00:00:00:01"
TUNNEL_BYTES = 50
MEMORY_ENTRIES = 8192


def _no_checkpoint(step: str) -> None:
    del step


class DataPlane:
    def __init__(
        self,
        settings: DataplaneSettings,
        *,
        program: Path | None = None,
        bpf_root: Path = BPF_ROOT,
        checkpoint: Checkpoint = _no_checkpoint,
    ) -> None:
        """Must be called in the node's network namespace. Does not interrupt traffic. Raises
        DataPlaneError."""
        checked(settings.instance)
        self.settings = settings
        self.checkpoint = checkpoint
        self.namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.netlink = Netlink()
        self.next_hops = NextHops(partial(links.read_next_hop, self.netlink))
        self.state = DataplaneState()
        self.bulk = NO_BULK
        self.underlay = self._underlay()
        self.mtu = self.underlay.mtu - TUNNEL_BYTES
        self.gateways = Gateways(settings, self.netlink, checkpoint, self._is_slot_used)
        self.pins = Pins(bpf_root, settings.instance)
        try:
            self._start(program or shipped_object() or build())
        except BaseException:
            self.netlink.close()
            os.close(self.namespace)
            raise

    def _underlay(self) -> links.Link:
        link = links.read_link(self.netlink, self.settings.underlay)
        if link is None:
            raise Unsupported(f"underlay device {self.settings.underlay} not found")
        return link

    def _start(self, program: Path) -> None:
        vxlan = self._ensure_vxlan()
        egress = self.gateways.ensure_exit()
        low, high = self.settings.nat_ports
        constants = CONFIG.pack(
            self.settings.node.packed, self.underlay.index, vxlan.index, egress.index,
            self.settings.tunnel_port.to_bytes(2, "big"), low, high, pack_mac(ROUTER_MAC), pack_mac(egress.mac),
            ticks(self.settings.path_seconds), pack(self.settings.node6) if self.settings.node6 else NO_ADDRESS,
            int(self.settings.count_flows),
        )  # fmt: skip
        self.checkpoint("load programs")
        self.programs = self._load(program, constants)
        self.maps = self.pins.open_maps()
        self.drop_counts = self.pins.open_map("drops", INDEX.size, DROP_COUNT.size)
        self.path_counts = self.pins.open_map("paths", INDEX.size, 8)
        self.network_drop_counts = self.pins.open_map("network_drops", INDEX.size, 8)
        self.memories = NetworkMemories(self.pins)
        self.memories.restore()
        self.meters = NetworkMeters(self.pins)
        self.held: Entries = read_back(self.maps)
        for vni, slot in self.slots().items():
            if slot in self.memories.flows.slots:
                self.meters.name(slot, vni, self.memories)
        # New maps have no entries for existing ports: keep the older programs until the first `apply`.
        self.guarding = None if self.held[MapName.PORTS] else (vxlan.index, egress.index)
        if self.guarding is None:
            self._attach_programs(vxlan.index, egress.index)
        self._shape()

    def _load(self, program: Path, constants: bytes) -> Programs:
        """Loads the programs. If the kernel or libbpf rejects the shipped object, compiles it on this
        machine.

        Raises ProgramRejected, and BuildFailed if there is no compiler.
        """
        try:
            return self.pins.programs(program, constants)
        except ProgramRejected as error:
            if program != shipped_object():
                raise
            log.warning(
                "shipped eBPF object rejected; compiling it on this node", extra={"error": str(error)}
            )
            return self.pins.programs(build(), constants)

    def _shape(self) -> None:
        if self.settings.underlay_bytes_per_second:
            shape(self.netlink, self.underlay, self.settings.underlay_bytes_per_second)
        elif not links.is_filtered(self.netlink, self.underlay.index, handle_of(self.settings.instance)):
            unshape(self.netlink, self.underlay)

    def _attach_programs(self, vxlan: int, egress: int) -> None:
        """Attaches the current programs to all links of the instance. A restart changes nothing; an upgrade
        replaces the program of each link atomically."""
        program_names = {vxlan: "from_vxlan", egress: "from_exit"}
        for link in self._instance_links().values():
            program_names.setdefault(link, "from_pod")
        # Last, so that packets from other nodes find all other programs attached.
        program_names[self.underlay.index] = "from_underlay"
        for index, name in program_names.items():
            handle = handle_of(self.settings.instance) if name == "from_underlay" else links.SOLE
            if links.read_attached(self.netlink, index, handle) != self.programs.ids[name]:
                self.checkpoint(f"guard link {index}")
                program = self.programs.descriptors[name]
                self.netlink.do(*guard(index, program, name, handle), links.set_link(index))
        self.pins.forget_other_versions(self.programs.version)

    def _ensure_vxlan(self) -> links.Link:
        """The fallback device. Its MAC differs from ROUTER_MAC, because a frame from that one would look like
        a loop."""
        name = f"{self.settings.instance}v"
        self.netlink.do(links.vxlan(name, "0a:00:00:00:00:02", self.settings.tunnel_port))
        link = links.read_link(self.netlink, name)
        if link is None:
            # EEXIST is ignored, but it is returned for a used UDP port, too.
            port = self.settings.tunnel_port
            raise Unsupported(f"UDP port {port} is used by another VXLAN device: choose another tunnel port")
        return link

    def _instance_links(self) -> dict[str, int]:
        """The indexes of veths and gateway links, by name."""
        return instance_links(self.netlink, self.settings.instance)

    def add_port(self, veth: Veth, namespace: int) -> None:
        """Creates a pod's veth, ready for traffic: link, addresses, program, entries. The next
        `DataplaneState` must include it. Raises DataPlaneError."""
        # Remove leftovers of an interrupted call, or of an earlier pod with the same name.
        self.remove_port(veth.name)
        program = self.programs.descriptors["from_pod"]
        index = make_port(
            self.netlink, veth, namespace, self.mtu, program, self.checkpoint, self._is_slot_used
        )
        self.state = _with_veth(self.state, veth)
        slots = self._ensure_memories({veth.vni})
        entries: Entries = {name: {} for name in MapName}
        entries[MapName.NETWORKS][NETWORK_KEY.pack(veth.vni)] = WORD.pack(slots[veth.vni])
        add_port(entries, veth, index, slots[veth.vni], self.bulk.services)
        changes = [MapChange(name, puts=entries[name]) for name in MapName if entries[name]]
        for refused in apply(self.maps, changes, self.held, self.checkpoint):
            raise refused.error

    def _is_slot_used(self, index: int) -> bool:
        entry = self.held[MapName.PORTS].get(port_key(index))
        return entry is not None and bool(PORT.unpack(entry)["ifindex"] != index)

    def remove_port(self, name: str) -> None:
        """Removes the veth's entries, then its link. Idempotent."""
        for veth in self.state.veths:
            if veth.name == name:
                self.state = _without_veth(self.state, veth)
                doomed = [endpoint_key(veth.vni, one.ip) for one in veth.addresses]
                self._delete(MapName.ENDPOINTS, doomed)
        link = links.read_link(self.netlink, name)
        if link is not None:
            self._delete(MapName.PORTS, [port_key(link.index)])
            self._delete(MapName.BUCKETS, [INDEX.pack(link.index)])
            self.checkpoint(f"delete {name}")
            self.netlink.do(links.delete_link(link.index))

    def _delete(self, name: MapName, keys: Iterable[bytes]) -> None:
        doomed = [key for key in keys if key in self.held[name]]
        if doomed:
            self.checkpoint(f"{name.value} -{len(doomed)}")
            self.maps[name].delete_all(doomed)
            for key in doomed:
                del self.held[name][key]

    def apply(self, state: DataplaneState) -> list[RefusedEntries]:
        """Brings the kernel to the desired state. Veths whose link is missing are skipped until `add_port`.
        Links that are not in the state are removed with everything that belongs to them, so the first state
        after a start must be complete. Returns entries that the kernel did not take; the next call tries them
        again. Raises DataPlaneError."""
        self.bulk = bulk_of(state, self.settings.node, self.state, self.bulk)
        self.state = state
        slots = self._ensure_memories(desired_vnis(state, self.settings.node))
        self.gateways.ensure(state, slots, self.mtu, self.programs.descriptors["from_pod"])
        observed = self.find(state, slots)
        settings = self.settings
        entries = desired(settings.instance, settings.node, state, observed, self.bulk, settings.node6)
        try:
            refused = apply(self.maps, difference(entries, self.held), self.held, self.checkpoint)
        except KernelRefused:
            # Part of a batch may be written, so read back the actual entries.
            self.held = read_back(self.maps)
            raise
        if self.guarding is not None:
            self._attach_programs(*self.guarding)
            self.guarding = None
        self._remove_orphans(state, observed)
        return refused

    def resync(self, state: DataplaneState, gateways: int | None = None) -> list[RefusedEntries]:
        """As `apply`, but reads back maps, links and programs first and repairs them. `gateways` is the
        number of gateways to check, in turn; each takes some milliseconds."""
        self.held = read_back(self.maps)
        self.next_hops.forget()
        self.memories.close()
        self.memories = NetworkMemories(self.pins)
        self.memories.restore()
        vxlan = self._ensure_vxlan()
        self._attach_programs(vxlan.index, self.gateways.ensure_exit().index)
        self.gateways.invalidate(gateways)
        return self.apply(state)

    def find(self, state: DataplaneState, slots: dict[int, int]) -> ObservedKernelState:
        """The observed kernel state, for `desired`."""
        hops = self.next_hops.of(state.nodes)
        ports = [PORT.unpack(raw) for raw in self.held[MapName.PORTS].values()]
        flags = {port["ifindex"]: port["flags"] for port in ports}
        return ObservedKernelState(self._instance_links(), slots, hops, flags)

    def slots(self) -> dict[int, int]:
        """The memory slot of each network."""
        held = self.held[MapName.NETWORKS].copy()  # Metrics are read in another thread.
        return {NETWORK_KEY.unpack(key)["vni"]: WORD.unpack(raw)["word"] for key, raw in held.items()}

    def _ensure_memories(self, vnis: set[int]) -> dict[int, int]:
        """The slots of these networks, with a memory in each. A network that is being removed keeps its slot
        until its entry is deleted, so that another network never gets its flows."""
        held = self.slots()
        slots = allot_slots(held, vnis | set(held))
        entries = {network.vni: network.memory_entries for network in self.state.networks}
        for vni in vnis:
            self.checkpoint(f"memory of {vni}")
            if slots[vni] not in self.memories.flows.slots:
                self.meters.begin(slots[vni])
            self.memories.ensure(slots[vni], entries.get(vni, MEMORY_ENTRIES))
            self.meters.name(slots[vni], vni, self.memories)
        return {vni: slots[vni] for vni in vnis}

    def _remove_orphans(self, state: DataplaneState, observed: ObservedKernelState) -> None:
        desired_names = {veth.name for veth in state.veths}
        desired_names |= {gateway_name(self.settings.instance, gateway.vni) for gateway in state.gateways}
        doomed = [index for name, index in observed.links.items() if name not in desired_names]
        if doomed:
            self.checkpoint(f"delete {len(doomed)} links")
            self.netlink.do(*(links.delete_link(index) for index in doomed))
        self.gateways.remove_others(state)
        used = set(self.slots().values())
        for slot in self.memories.slots - used:
            self.checkpoint(f"drop memory {slot}")
            self.meters.end(slot)
            self.memories.drop(slot)

    def drops(self) -> dict[DropReason, DropCount]:
        return read_counts(self.drop_counts)

    def network_drops(self) -> dict[int, int]:
        """How many packets of each network were noted in its table of drops, by VNI."""
        return self._by_network(self.network_drop_counts)

    def network_openings(self) -> dict[int, int]:
        """How many connections each network has opened on this node, by VNI."""
        return self._by_network(self.memories.opening_counts)

    def _by_network(self, counts: Map) -> dict[int, int]:
        return {
            vni: int.from_bytes(counts.get(INDEX.pack(slot)) or b"", "little")
            for vni, slot in self.slots().items()
        }

    def paths(self) -> dict[PathTaken, int]:
        return read_paths(self.path_counts)

    def dry_run(self, veth: Veth, packet: MadePacket) -> KernelVerdict:
        """What the program at the veth does with a packet that its pod would send. Raises KernelRefused."""
        link = links.read_link(self.netlink, veth.name)
        if link is None:
            raise KernelRefused(f"find {veth.name}", errno.ENODEV)
        return self._dry_run("from_pod", link.index, veth.vni, packet, frame_of(packet, veth.mac))

    def dry_run_arrival(self, vni: int, packet: MadePacket, sender: IPv4Address) -> KernelVerdict:
        """What the program at the underlay does with a packet of the network that another node would send. Raises
        KernelRefused."""
        frame = tunnelled(packet, vni, (sender, self.settings.node), self.settings.tunnel_port)
        return self._dry_run("from_underlay", self.underlay.index, vni, packet, frame)

    def _dry_run(self, program: str, link: int, vni: int, packet: MadePacket, frame: bytes) -> KernelVerdict:
        slot = self.slots().get(vni)
        if slot is None:
            raise KernelRefused(f"find network {vni}", errno.ENODEV)
        flows, drops = self.memories.flows.open(slot), self.memories.drops.open(slot)
        descriptor, port = self.programs.descriptors[program], self.settings.tunnel_port
        with namespaces.inside(self.namespace):
            return dry_run(descriptor, link, frame, packet, port, flows, drops)

    def open_traffic(self, vni: int) -> NetworkTraffic | None:
        """The tables of the network's flows and drops, for the caller to read and close in any thread; None if
        the network is not on this node."""
        slot = self.slots().get(vni)
        if slot is None or slot not in self.memories.flows.slots & self.memories.drops.slots:
            return None
        flows = self.memories.flows.open(slot)
        try:
            return NetworkTraffic(flows, self.memories.drops.open(slot))
        except BaseException:
            flows.close()
            raise

    def open_rings(self, vnis: Iterable[int], held: Mapping[int, OpeningRing]) -> dict[int, OpeningRing]:
        """The rings of those of these networks that are on this node, by VNI; those of `held` that are still theirs.
        Raises KernelRefused, OSError."""
        slots, rings = self.slots(), self.memories.openings.slots
        found = {}
        for vni in vnis:
            slot = slots.get(vni)
            if slot is None or slot not in rings:
                continue
            ring = held.get(vni)
            is_same = ring is not None and ring.pin == self.memories.ring_pin(slot)
            found[vni] = ring if ring is not None and is_same else self.memories.open_ring(slot)
        return found

    def close(self) -> None:
        """Closes all descriptors; programs and maps stay active in the kernel."""
        self.netlink.close()
        if self.namespace >= 0:
            os.close(self.namespace)
            self.namespace = -1
        self.memories.close()
        self.meters.close()
        for one in (*self.maps.values(), self.drop_counts, self.path_counts, self.network_drop_counts):
            one.close()
        for descriptor in self.programs.descriptors.values():
            os.close(descriptor)
        self.programs = Programs(self.programs.version, {}, self.programs.ids)

    def destroy(self) -> None:
        """Removes everything of the instance from the kernel. Must be called in the node's network
        namespace."""
        self.close()
        remove(self.settings.instance, self.settings.underlay, self.pins.root)


def _with_veth(state: DataplaneState, veth: Veth) -> DataplaneState:
    others = tuple(one for one in state.veths if one.name != veth.name)
    return replace(state, veths=(*others, veth))


def _without_veth(state: DataplaneState, veth: Veth) -> DataplaneState:
    return replace(state, veths=tuple(one for one in state.veths if one is not veth))
