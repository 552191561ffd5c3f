// SPDX-License-Identifier: GPL-2.0-only
/* A port: the host side of a pod's (or gateway's) veth, and who may speak through it. */
#pragma once

#include "packet.h"

#define PORT_GATEWAY 0x1	/* the agent's own: may send for the world outside the network */
#define PORT_BACKEND 0x2	/* answers for some service: its packets may be replies */
#define PORT_SERVICES 0x4	/* its network has services */

struct port {
	__u32 vni;
	__u32 memory;		/* slot of its network's memory (flow.h) */
	__u8 mac[6];
	__u16 flags;
	__u32 priority;		/* of its packets on the underlay: the class */
	__u8 tos;		/* of the outer header */
	__u8 pad[3];
	__u32 ifindex;		/* whose it is: links that are far apart in number share a place */
	__u32 pad2;
	struct address address4;
	struct address address6;
	__u64 policy_in;
	__u64 policy_out;
	__u64 rate;		/* bytes a second, 0: no limit */
	__u64 burst_ns;		/* how far ahead of the rate it may run */
};
_Static_assert(sizeof(struct port) == 96, "port");

#define PORT_PLACES 16384

/* An array: every packet of a pod comes by here, and finding its port in a hash would be a fifth of all our work.
 * What of a port changes while it lives is its policies, each a word by itself. */
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
