// SPDX-License-Identifier: GPL-2.0-only
/* Values that are fixed while a program is loaded. Constants to the verifier: unused branches are removed. */
#pragma once

#include "address.h"

struct config {
	__be32 node;		/* this node's underlay address: source of every tunnel packet */
	__u32 underlay;		/* ifindex of the underlay device */
	__u32 vxlan;		/* ifindex of the fallback VXLAN device */
	__u32 exit;		/* ifindex of the egress link, 0: none */
	__be16 tunnel_port;	/* UDP port of the tunnel */
	__u16 nat_low;		/* ports of the node's address that the egress NAT translates to */
	__u16 nat_high;
	__u8 router_mac[6];	/* every neighbour's MAC, as pods see it */
	__u8 exit_mac[6];	/* MAC of the egress link's inner device */
	__u16 path_ticks;	/* how long a learned path is used before it is requested again */
	struct address node6;	/* this node's IPv6 address, zeros: none; the tunnel is always IPv4 */
	__u32 count_flows;	/* whether connections have counters */
};
_Static_assert(sizeof(struct config) == 56, "config");

const volatile struct config config = {};

/* Time is counted in ticks of 2^30 ns: coarse enough that reading and storing it costs nothing. */
INLINE __u32 now_tick(void)
{
	return bpf_ktime_get_coarse_ns() >> 30;
}

INLINE void copy_router_mac(__u8 *mac)
{
	*(__u16 *)mac = *(volatile __u16 *)config.router_mac;
	*(__u32 *)(mac + 2) = *(volatile __u32 *)(config.router_mac + 2);
}

INLINE bool for_node6(const struct address *target)
{
	struct address node = config.node6;

	return node.word[0] && address_equal(target, &node);
}
