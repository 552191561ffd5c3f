// SPDX-License-Identifier: GPL-2.0-only
/* At the host side of the egress link: source-translated packets to external addresses, sent by the underlay device.
 * The host itself and the nodes cannot be reached. */
#include "lib/door.h"
#include "lib/drop.h"
#include "lib/route.h"

/* A reply from one of the node's node ports, which is counted, may go to any client, including other nodes. A pod cannot
 * impersonate a node port: connections that it opens leave from the ports of the egress NAT. */
INLINE bool is_doors_answer(const struct __sk_buff *skb, const struct packet *pkt)
{
	struct door_key key = {
		.address = pkt->flow.source,
		.port = pkt->flow.sport,
		.proto = pkt->flow.proto,
	};
	const __u32 *door = bpf_map_lookup_elem(&doors, &key);

	if (door)
		meter_door(skb, *door, false);
	return door;
}

INLINE int to_outside(struct __sk_buff *skb, struct packet *pkt)
{
	int reason;

	reason = parse(skb, pkt, skb->protocol);
	if (reason)
		return -reason;
	if (!is_doors_answer(skb, pkt) && is_forbidden(&pkt->flow.target))
		return -REASON_UNDERLAY;
	return bpf_redirect_neigh(config.underlay, NULL, 0, 0);
}

SEC("tc")
int from_exit(struct __sk_buff *skb)
{
	struct packet pkt = {};
	int verdict = to_outside(skb, &pkt);

	return verdict < 0 ? drop(skb, &pkt, -verdict) : verdict;
}
