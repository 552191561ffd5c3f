// SPDX-License-Identifier: GPL-2.0-only
/* A relay's word to the node before it: "that endpoint is over there". It travels as a VXLAN frame of
 * an experimental type, which no pod can send, and is taken from known nodes only. */
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
	__be32 node;		/* 0: unlearn */
} __attribute__((packed));
#define NOTICE_SIZE 84
_Static_assert(sizeof(struct notice) == NOTICE_SIZE, "notice");

INLINE void path_key(struct tuple *key, const struct address *endpoint)
{
	*key = (struct tuple){ .target = *endpoint };
}

/* The node a relay named for an endpoint, 0: none, or too long ago, or it is no more. */
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

struct network_key {
	__u32 vni;
};

/* The memory of a network that is present here, by its VNI. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MEMORIES);
	__type(key, struct network_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} networks SEC(".maps");

INLINE void *memory_of_network(__u32 vni)
{
	struct network_key key = { .vni = vni };
	__u32 *slot = bpf_map_lookup_elem(&networks, &key);

	return slot ? memory_of(*slot) : NULL;
}

/* Learns what the notice says. */
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

/* Turns the packet, of which a copy went on, into a notice for whoever sent it here. */
INLINE int send_notice(struct __sk_buff *skb, const struct packet *pkt, __be32 node)
{
	struct notice *notice;
	__be32 sender;
	__u8 mac[6];

	if (bpf_skb_change_tail(skb, NOTICE_SIZE, 0))
		return -REASON_REWRITE;
	notice = header(skb, 0, sizeof(*notice));
	if (!notice)
		return -REASON_TRUNCATED;
	sender = notice->outer.ip.saddr;
	__builtin_memcpy(mac, notice->eth.h_source, 6);
	__builtin_memcpy(notice->eth.h_source, notice->eth.h_dest, 6);
	__builtin_memcpy(notice->eth.h_dest, mac, 6);
	fill_outer_ip(&notice->outer.ip, sender, NOTICE_SIZE - ETH_HLEN, 0, TUNNEL_TTL);
	notice->outer.udp.len = bpf_htons(NOTICE_SIZE - ETH_HLEN - sizeof(struct iphdr));
	notice->outer.udp.check = 0;
	notice->outer.eth.h_proto = bpf_htons(ETH_P_NOTICE);
	__builtin_memcpy(&notice->endpoint, &pkt->flow.target, sizeof(notice->endpoint));
	notice->node = node;
	return bpf_redirect(config.underlay, 0);
}

/* The MACs of the way to a node, if the neighbour is known already. */
INLINE bool find_macs(__be32 node, struct bpf_fib_lookup *way, struct __sk_buff *skb)
{
	way->family = AF_INET;
	way->ifindex = config.underlay;
	way->ipv4_src = config.node;
	way->ipv4_dst = node;
	return bpf_fib_lookup(skb, way, sizeof(*way), BPF_FIB_LOOKUP_OUTPUT) == BPF_FIB_LKUP_RET_SUCCESS;
}

/* Passes a tunnel packet on to `address`, and tells its sender to go there itself next time. */
STAGE int relay(struct __sk_buff *skb, const struct packet *pkt NONNULL, __be32 address)
{
	const struct node *node = node_of(address);
	struct bpf_fib_lookup way = {};
	struct notice *packet;
	__be32 sender;
	__u8 ttl;

	if (!node)
		return -REASON_NO_NODE;
	packet = header(skb, 0, ETH_HLEN + OUTER_SIZE);
	if (!packet)
		return -REASON_TRUNCATED;
	ttl = packet->outer.ip.ttl;
	if (ttl <= RELAY_COST)
		return -REASON_RELAY_LIMIT;
	sender = packet->outer.ip.saddr;
	count_path(PATH_RELAYED);
	fill_outer_ip(&packet->outer.ip, address, skb->len - ETH_HLEN, packet->outer.ip.tos, ttl - RELAY_COST);
	/* Not yet resolved: the kernel does it for this packet, the next one will be told. */
	if (!find_macs(address, &way, skb))
		return to_underlay(node);
	packet = header(skb, 0, ETH_HLEN + OUTER_SIZE);
	if (!packet)
		return -REASON_TRUNCATED;
	{
		__u8 before[6], own[6];

		__builtin_memcpy(before, packet->eth.h_source, 6);
		__builtin_memcpy(own, packet->eth.h_dest, 6);
		__builtin_memcpy(packet->eth.h_dest, way.dmac, 6);
		__builtin_memcpy(packet->eth.h_source, way.smac, 6);
		bpf_clone_redirect(skb, config.underlay, 0);
		packet = header(skb, 0, ETH_HLEN + OUTER_SIZE);
		if (!packet)
			return -REASON_TRUNCATED;
		__builtin_memcpy(packet->eth.h_source, before, 6);
		__builtin_memcpy(packet->eth.h_dest, own, 6);
		packet->outer.ip.saddr = sender;
	}
	return send_notice(skb, pkt, address);
}
