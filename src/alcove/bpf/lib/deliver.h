// SPDX-License-Identifier: GPL-2.0-only
/* The last step of every path: into a local veth, or out to a node. */
#pragma once

#include "endpoint.h"
#include "meter.h"
#include "neighbor.h"
#include "notice.h"
#include "policy.h"
#include "port.h"
#include "route.h"
#include "service.h"

INLINE int into_port(struct __sk_buff *skb, __u32 ifindex, const __u8 *mac)
{
	struct ethhdr *eth = header(skb, 0, sizeof(*eth));

	if (!eth)
		return -REASON_TRUNCATED;
	__builtin_memcpy(eth->h_dest, mac, 6);
	copy_router_mac(eth->h_source);
	/* After decapsulation it is the tunnel's; whoever reads frames, such as gVisor and captures, goes by it. */
	eth->h_proto = skb->protocol;
	return bpf_redirect_peer(ifindex, 0);
}

/* No program runs at the other veth for this packet, so all checks that protect it must have run before. */
INLINE int into_endpoint(struct __sk_buff *skb, const struct endpoint *endpoint)
{
	return into_port(skb, endpoint->ifindex, endpoint->mac);
}

INLINE bool has_policy(const struct profiles *ends)
{
	return ends->source_in | ends->source_out | ends->target_in | ends->target_out;
}
