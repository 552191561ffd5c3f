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

	if (!ip || ip->ihl != 5 || ip->frag_off & bpf_htons(0x1fff))
		return false;
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_SCTP)
		return false;
	key.address = ip->daddr;
	key.proto = ip->protocol;
	key.port = ((__be16 *)(ip + 1))[1];
	if (ip->daddr == config.node && is_nat_port(key.port))
		return true;
	return bpf_map_lookup_elem(&doors, &key);
}

INLINE bool is_icmp_for_exit(struct __sk_buff *skb)
{
	struct iphdr *ip = header(skb, ETH_HLEN, sizeof(*ip));

	if (!ip || ip->protocol != IPPROTO_ICMP || ip->ihl != 5 || ip->frag_off & bpf_htons(0x1fff))
		return false;
	return ip->daddr == config.node && icmp_is_exits(skb, ETH_HLEN + sizeof(*ip));
}

INLINE void to_exit_mac(struct __sk_buff *skb)
{
	struct ethhdr *eth = header(skb, 0, sizeof(*eth));

	if (!eth)
		return;
	for (int i = 0; i < 6; i++)
		eth->h_dest[i] = config.exit_mac[i];
}

/* Nobody owns an ICMP identifier: the host may use the same. Both get the message; one ignores it. */
INLINE int share_icmp(struct __sk_buff *skb)
{
	struct ethhdr *eth = header(skb, 0, sizeof(*eth));
	__u8 own[6];

	if (!eth)
		return NOT_OURS;
	__builtin_memcpy(own, eth->h_dest, 6);
	to_exit_mac(skb);
	bpf_clone_redirect(skb, config.exit, 0);
	eth = header(skb, 0, sizeof(*eth));
	if (eth)
		__builtin_memcpy(eth->h_dest, own, 6);
	return NOT_OURS;
}

/* Hands the world's packets to the exit; the host keeps its own. */
INLINE int through_door(struct __sk_buff *skb)
{
	if (!config.exit)
		return NOT_OURS;
	if (is_icmp_for_exit(skb))
		return share_icmp(skb);
	if (!is_door(skb))
		return NOT_OURS;
	to_exit_mac(skb);
	return bpf_redirect_peer(config.exit, 0);
}
