// SPDX-License-Identifier: GPL-2.0-only
/* A port: the host side of a pod's (or gateway's) veth, and the addresses it may use. */
#pragma once

#include "packet.h"

#define PORT_GATEWAY 0x1	/* the agent's own: may send with external source addresses */
#define PORT_BACKEND 0x2	/* a backend of some service: its packets may be replies */
#define PORT_SERVICES 0x4	/* its network has services */

struct port {
	__u32 vni;
	__u32 memory;		/* slot of its network's memory (flow.h) */
	__u8 mac[6];
	__u16 flags;
	__u32 priority;		/* skb priority of its packets on the underlay: the class */
	__u8 tos;		/* TOS of the outer header */
	__u8 pad[3];
	__u32 ifindex;		/* the device it belongs to: ifindexes may collide in the array */
	__u32 pad2;
	struct address address4;
	struct address address6;
	__u64 policy_in;
	__u64 policy_out;
	__u64 rate;		/* bytes per second, 0: no limit */
	__u64 burst_ns;		/* how far it may run ahead of the rate */
};
_Static_assert(sizeof(struct port) == 96, "port");

#define PORT_PLACES 16384

/* An array: it is read for every packet of a pod, and a hash lookup would take a fifth of the total time. Of a port
 * in use only the policies change, each in one word. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_PLACES);
	__type(key, __u32);
	__type(value, struct port);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ports SEC(".maps");

INLINE const struct port *port_of(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, place = ifindex & (PORT_PLACES - 1);
	const struct port *port = bpf_map_lookup_elem(&ports, &place);

	return port && port->ifindex == ifindex ? port : NULL;
}

INLINE bool port_owns_source(const struct port *port, const struct packet *pkt)
{
	const struct address *own = pkt->family == 4 ? &port->address4 : &port->address6;

	return address_equal(&pkt->flow.source, own);
}
