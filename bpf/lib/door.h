// SPDX-License-Identifier: GPL-2.0-only
/* The node's doors: packets of the world that belong to a network. They are new connections to a
 * NodePort or LoadBalancer address, or answers to what the exit sent out from its share of ports. */
#pragma once

#include "config.h"
#include "packet.h"

struct door_key {
	__be32 address;
	__be16 port;
	__u8 proto;
	__u8 pad;
};
_Static_assert(sizeof(struct door_key) == 8, "door_key");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct door_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} doors SEC(".maps");

INLINE bool is_nat_port(__be16 port)
{
	return bpf_ntohs(port) >= config.nat_low && bpf_ntohs(port) <= config.nat_high;
}

/* An ICMP message is the exit's when its echo, or the packet it complains of, is. */
INLINE bool icmp_is_exits(struct __sk_buff *skb, __u32 l4)
{
	struct {
		struct icmphdr icmp;
		struct iphdr ip;
		__be16 ports[4];
	} *error;
	struct icmphdr *icmp = header(skb, l4, sizeof(*icmp));

	if (!icmp)
		return false;
	if (icmp->type == ICMP_ECHOREPLY)
		return is_nat_port(icmp->id);
	if (icmp->type != ICMP_DEST_UNREACH && icmp->type != ICMP_TIME_EXCEEDED)
		return false;
	error = header(skb, l4, sizeof(*error));
	if (!error || error->ip.ihl != 5 || error->ip.saddr != config.node)
		return false;
	return is_nat_port(error->ip.protocol == IPPROTO_ICMP ? error->ports[2] : error->ports[0]);
}

INLINE bool is_door(struct __sk_buff *skb)
{
	struct iphdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + 4);
	struct door_key key = {};
	__be16 *ports;

	if (!ip || ip->ihl != 5 || ip->frag_off & bpf_htons(0x1fff))
		return false;
	key.address = ip->daddr;
	key.proto = ip->protocol;
	ports = (__be16 *)(ip + 1);
	key.port = ports[1];
	if (ip->protocol == IPPROTO_ICMP)
		return ip->daddr == config.node && icmp_is_exits(skb, ETH_HLEN + sizeof(*ip));
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_SCTP)
		return false;
	if (ip->daddr == config.node && is_nat_port(key.port))
		return true;
	return bpf_map_lookup_elem(&doors, &key);
}

/* Hands the world's packets to the exit; the host keeps its own. */
INLINE int through_door(struct __sk_buff *skb)
{
	struct ethhdr *eth;

	if (!config.exit || !is_door(skb))
		return TC_ACT_OK;
	eth = header(skb, 0, sizeof(*eth));
	if (!eth)
		return -REASON_TRUNCATED;
	for (int i = 0; i < 6; i++)
		eth->h_dest[i] = config.exit_mac[i];
	return bpf_redirect_peer(config.exit, 0);
}
