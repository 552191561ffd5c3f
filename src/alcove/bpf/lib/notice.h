// SPDX-License-Identifier: GPL-2.0-only
/* A relay's notice to the previous node: which node has an endpoint. It is a VXLAN frame of an experimental type, which
 * pods cannot send, and is accepted from known nodes only. */
#pragma once

#include "endpoint.h"
#include "tunnel.h"

#define ETH_P_NOTICE 0x88b5

struct notice {
	struct ethhdr eth;
	struct {
		struct iphdr ip;
		struct udphdr udp;
		struct vxlan vxlan;
		struct ethhdr eth;
	} __attribute__((packed)) outer;
	struct address endpoint;
	__be32 node;
} __attribute__((packed));
#define NOTICE_SIZE 84
_Static_assert(sizeof(struct notice) == NOTICE_SIZE, "notice");

INLINE void path_key(struct tuple *key, const struct address *endpoint)
{
	*key = (struct tuple){ .target = *endpoint };
}

/* The node learned for an endpoint; 0 if there is none, it has expired, or the node no longer exists. */
INLINE __be32 learned_node(void *memory, const struct address *endpoint)
{
	struct flow *known;
	struct tuple key;

	path_key(&key, endpoint);
	known = recall(memory, &key, FLOW_PATH);
	if (!known || idle_ticks(known) > config.path_ticks || !node_of(known->node))
		return 0;
	return known->node;
}

INLINE void *memory_of_network(__u32 vni)
{
	const __u32 *slot = slot_of(vni);

	return slot ? memory_of(*slot) : NULL;
}

/* Stores the content of the notice. */
STAGE int take_notice(struct __sk_buff *skb, __u32 vni)
{
	struct notice *notice = header(skb, 0, sizeof(*notice));
	struct flow learned = {};
	struct tuple key;
	void *memory;

	if (!notice)
		return -REASON_TRUNCATED;
	path_key(&key, &(struct address){});
	__builtin_memcpy(&key.target, &notice->endpoint, sizeof(key.target));
	learned.node = notice->node;
	memory = memory_of_network(vni);
	if (!memory)
		return -REASON_NO_MEMORY;
	remember(memory, &key, FLOW_PATH, &learned);
	return -REASON_NOTICE;
}

/* The bytes that a notice overwrites in the packet it is made from. */
struct overwritten {
	struct ethhdr eth;
	struct ethhdr inner;
	__u8 start[20];		/* of the inner packet: shorter than any IP header and its payload */
};

INLINE void write_notice(struct notice *packet, const struct packet *pkt, __be32 node, __u32 length)
{
	__u8 mac[6];

	__builtin_memcpy(mac, packet->eth.h_source, 6);
	__builtin_memcpy(packet->eth.h_source, packet->eth.h_dest, 6);
	__builtin_memcpy(packet->eth.h_dest, mac, 6);
	fill_outer_ip(&packet->outer.ip, packet->outer.ip.saddr, length, 0, TUNNEL_TTL);
	packet->outer.eth.h_proto = bpf_htons(ETH_P_NOTICE);
	__builtin_memcpy(&packet->endpoint, &pkt->flow.target, sizeof(packet->endpoint));
	packet->node = node;
}

/* Notifies the previous node: the packet is turned into a notice, a copy of that is sent back, and the packet is
 * restored. Not possible for a packet that is not segmented yet, which is never the first of a flow. */
INLINE int notify(struct __sk_buff *skb, const struct packet *pkt, __be32 node)
{
	struct overwritten saved;
	struct notice *packet;

	/* A dry run's packet, which alone has a mark, sends nothing. */
	if (skb->gso_size || skb->mark)
		return REASON_NONE;
	packet = header(skb, 0, sizeof(*packet));
	if (!packet)
		return REASON_NONE;
	saved.eth = packet->eth;
	saved.inner = packet->outer.eth;
	__builtin_memcpy(saved.start, &packet->endpoint, sizeof(saved.start));
	write_notice(packet, pkt, node, skb->len - ETH_HLEN);
	bpf_clone_redirect(skb, config.underlay, 0);
	packet = header(skb, 0, sizeof(*packet));
	if (!packet)
		return REASON_TRUNCATED;
	packet->eth = saved.eth;
	packet->outer.eth = saved.inner;
	__builtin_memcpy(&packet->endpoint, saved.start, sizeof(saved.start));
	return REASON_NONE;
}

/* Forwards a tunnel packet to `address`, and notifies its sender to send there directly from now on. */
STAGE int relay(struct __sk_buff *skb, const struct packet *pkt NONNULL, __be32 address)
{
	const struct node *node = node_of(address);
	struct outer *outer = header(skb, ETH_HLEN, OUTER_SIZE);
	__u8 ttl, tos;
	int reason;

	if (!outer)
		return -REASON_TRUNCATED;
	if (!node)
		return -REASON_NO_NODE;
	ttl = outer->ip.ttl;
	tos = outer->ip.tos;
	if (ttl <= RELAY_COST)
		return -REASON_RELAY_LIMIT;
	reason = notify(skb, pkt, address);
	if (reason)
		return -reason;
	outer = header(skb, ETH_HLEN, OUTER_SIZE);
	if (!outer)
		return -REASON_TRUNCATED;
	fill_outer_ip(&outer->ip, address, skb->len - ETH_HLEN, tos, ttl - RELAY_COST);
	count_path(PATH_RELAYED);
	return to_underlay(node);
}
