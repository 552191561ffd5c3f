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
	struct address address4;
	struct address address6;
	__u64 policy_in;
	__u64 policy_out;
	__u64 rate;		/* bytes a second, 0: no limit */
	__u64 burst_ns;		/* how far ahead of the rate it may run */
};
_Static_assert(sizeof(struct port) == 88, "port");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct port);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ports SEC(".maps");

INLINE const struct port *port_of(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;

	return bpf_map_lookup_elem(&ports, &ifindex);
}

INLINE bool port_owns_source(const struct port *port, const struct packet *pkt)
{
	const struct address *own = pkt->family == 4 ? &port->address4 : &port->address6;

	return address_equal(&pkt->flow.source, own);
}
