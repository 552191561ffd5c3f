// SPDX-License-Identifier: GPL-2.0-only
/* At the underlay device: tunnel packets, and external packets for the node's ports and load balancer addresses. All
 * other packets are the host's and pass. */
#include "lib/arrive.h"
#include "lib/door.h"
#include "lib/drop.h"

#define INNER_L3 (ETH_HLEN + OUTER_SIZE)

STAGE int parse_inner(struct __sk_buff *skb, struct packet *pkt NONNULL, __u32 protocol)
{
	return parse_at(skb, pkt, INNER_L3, protocol);
}

/* A packet for an endpoint on another node: forwarded as bouncer or divider. */
INLINE int pass_on(struct __sk_buff *skb, const struct packet *pkt, const struct endpoint *endpoint)
{
	__be32 node = onward(pkt, endpoint);

	return node ? relay(skb, pkt, node) : -REASON_NO_ENDPOINT;
}

INLINE int from_tunnel(struct __sk_buff *skb, struct packet *pkt, __be16 protocol)
{
	const struct endpoint *endpoint;
	int reason = parse_inner(skb, pkt, protocol);

	if (reason)
		return -reason;
	endpoint = endpoint_of(pkt->vni, &pkt->flow.target);
	if (!endpoint || !(endpoint->flags & ENDPOINT_LOCAL))
		return pass_on(skb, pkt, endpoint);
	if (pkt->flow.proto == IPPROTO_UDP && skb->gso_size)
		return NOT_OURS;
	count_path(PATH_FROM_TUNNEL);
	reason = decapsulate(skb, pkt);
	if (!reason)
		reason = arrive(skb, pkt, endpoint);
	if (reason)
		return -reason;
	meter_received(skb, endpoint);
	return into_endpoint(skb, endpoint);
}

INLINE bool is_tunnel(const struct outer *outer)
{
	return outer->ip.protocol == IPPROTO_UDP && outer->udp.dest == config.tunnel_port &&
	       outer->ip.daddr == config.node && outer->ip.ihl == 5;
}

INLINE int from_wire(struct __sk_buff *skb, struct packet *pkt)
{
	struct outer *outer;
	__be16 protocol;

	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return through_door(skb, false);
	if (skb->protocol != bpf_htons(ETH_P_IP))
		return NOT_OURS;
	outer = header(skb, ETH_HLEN, OUTER_SIZE);
	if (!outer || !is_tunnel(outer))
		return through_door(skb, true);
	/* The host reassembles fragments; the result arrives at the VXLAN device. */
	if (outer->ip.frag_off & bpf_htons(0x3fff))
		return NOT_OURS;
	if (!node_of(outer->ip.saddr))
		return -REASON_FOREIGN_TUNNEL;
	if (outer->vxlan.flags != VXLAN_HAS_VNI)
		return -REASON_MALFORMED;
	pkt->vni = bpf_ntohl(outer->vxlan.vni) >> 8;
	protocol = outer->eth.h_proto;
	if (protocol == bpf_htons(ETH_P_NOTICE))
		return take_notice(skb, pkt->vni);
	return from_tunnel(skb, pkt, protocol);
}

SEC("tc")
int from_underlay(struct __sk_buff *skb)
{
	struct packet pkt = {};
	int verdict = from_wire(skb, &pkt);

	return verdict < 0 ? drop(skb, &pkt, -verdict) : verdict;
}
