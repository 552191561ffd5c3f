// SPDX-License-Identifier: GPL-2.0-only
/* At the host side of the exit: translated packets on their way to the world, by the underlay device.
 * The host itself and the nodes stay out of reach. */
#include "lib/door.h"
#include "lib/drop.h"
#include "lib/route.h"

/* An answer from one of the node's doors may go wherever the question came from, other nodes included. No pod can
 * pass for a door: what it opens itself leaves by the exit's own ports. */
INLINE bool is_doors_answer(const struct packet *pkt)
{
	struct door_key key = {
		.address = pkt->flow.source,
		.port = pkt->flow.sport,
		.proto = pkt->flow.proto,
	};

	return bpf_map_lookup_elem(&doors, &key);
}

INLINE int to_outside(struct __sk_buff *skb, struct packet *pkt)
{
	int reason;

	reason = parse(skb, pkt, skb->protocol);
	if (reason)
		return -reason;
	if (is_forbidden(&pkt->flow.target) && !is_doors_answer(pkt))
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
