// SPDX-License-Identifier: GPL-2.0-only
/* Node ports: external packets that belong to a network. They are new connections to a NodePort or LoadBalancer
 * address, or replies to connections that the egress NAT opened from its range of ports. */
#pragma once

#include "config.h"
#include "meter.h"
#include "packet.h"

struct door_key {
	struct address address;
	__be16 port;
	__u8 proto;
	__u8 pad;
};
_Static_assert(sizeof(struct door_key) == 20, "door_key");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct door_key);
	__type(value, __u32);	/* the slot of its network, and whether it is a load balancer's (meter.h) */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} doors SEC(".maps");

INLINE bool is_nat_port(__be16 port)
{
	return bpf_ntohs(port) >= config.nat_low && bpf_ntohs(port) <= config.nat_high;
}

INLINE bool has_door_ports(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

/* Whether a packet is for the egress link: a reply to a packet it sent, or for a node port, of which it is counted. */
INLINE bool is_exits(const struct __sk_buff *skb, struct door_key *key, bool for_node)
{
	const __u32 *door;

	if (for_node && is_nat_port(key->port))
		return true;
	door = bpf_map_lookup_elem(&doors, key);
	if (door)
		meter_door(skb, *door, true);
	return door;
}

INLINE bool is_door4(struct __sk_buff *skb)
{
	struct iphdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + 4);
	struct door_key key = {};

	if (!ip || ip->ihl != 5 || ip->frag_off & bpf_htons(0x1fff) || !has_door_ports(ip->protocol))
		return false;
	address_of_ip4(&key.address, ip->daddr);
	key.proto = ip->protocol;
	key.port = ((__be16 *)(ip + 1))[1];
	return is_exits(skb, &key, ip->daddr == config.node);
}

INLINE bool is_door6(struct __sk_buff *skb)
{
	struct ipv6hdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + 4);
	struct door_key key = {};

	if (!ip || !has_door_ports(ip->nexthdr))
		return false;
	address_of_ip6(&key.address, &ip->daddr);
	key.proto = ip->nexthdr;
	key.port = ((__be16 *)(ip + 1))[1];
	return is_exits(skb, &key, for_node6(&key.address));
}

/* An ICMP message is for the egress link if its echo, or the packet it refers to, is. */
INLINE bool is_icmp4_for_exit(struct __sk_buff *skb)
{
	struct {
		struct iphdr outer;
		struct icmphdr icmp;
		struct iphdr ip;
		__be16 ports[4];
	} *error;
	struct iphdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + sizeof(struct icmphdr));
	struct icmphdr *icmp;

	if (!ip || ip->protocol != IPPROTO_ICMP || ip->ihl != 5 || ip->frag_off & bpf_htons(0x1fff))
		return false;
	if (ip->daddr != config.node)
		return false;
	icmp = (struct icmphdr *)(ip + 1);
	if (icmp->type == ICMP_ECHOREPLY)
		return is_nat_port(icmp->id);
	if (icmp->type != ICMP_DEST_UNREACH && icmp->type != ICMP_TIME_EXCEEDED)
		return false;
	error = header(skb, ETH_HLEN, sizeof(*error));
	if (!error || error->ip.ihl != 5 || error->ip.saddr != config.node)
		return false;
	return is_nat_port(error->ip.protocol == IPPROTO_ICMP ? error->ports[2] : error->ports[0]);
}

INLINE bool is_icmp6_for_exit(struct __sk_buff *skb)
{
	struct {
		struct ipv6hdr outer;
		struct icmp6hdr icmp;
		struct ipv6hdr ip;
		__be16 ports[4];
	} *error;
	struct ipv6hdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + sizeof(struct icmp6hdr));
	struct icmp6hdr *icmp;
	struct address address;

	if (!ip || ip->nexthdr != IPPROTO_ICMPV6)
		return false;
	address_of_ip6(&address, &ip->daddr);
	if (!for_node6(&address))
		return false;
	icmp = (struct icmp6hdr *)(ip + 1);
	if (icmp->icmp6_type == ICMPV6_ECHO_REPLY)
		return is_nat_port(icmp->icmp6_identifier);
	if (icmp->icmp6_type < ICMPV6_DEST_UNREACH || icmp->icmp6_type > ICMPV6_TIME_EXCEED)
		return false;
	error = header(skb, ETH_HLEN, sizeof(*error));
	if (!error)
		return false;
	address_of_ip6(&address, &error->ip.saddr);
	if (!for_node6(&address))
		return false;
	return is_nat_port(error->ip.nexthdr == IPPROTO_ICMPV6 ? error->ports[2] : error->ports[0]);
}

INLINE void to_exit_mac(struct __sk_buff *skb)
{
	struct ethhdr *eth = header(skb, 0, sizeof(*eth));

	if (!eth)
		return;
	for (int i = 0; i < 6; i++)
		eth->h_dest[i] = config.exit_mac[i];
}

/* ICMP identifiers are not reserved: the host may use the same. Both get the message; one ignores it. */
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

/* Hands external packets of networks to the egress link; the host keeps its own. */
INLINE int through_door(struct __sk_buff *skb, bool ip4)
{
	if (!config.exit)
		return NOT_OURS;
	if (ip4 ? is_icmp4_for_exit(skb) : is_icmp6_for_exit(skb))
		return share_icmp(skb);
	if (!(ip4 ? is_door4(skb) : is_door6(skb)))
		return NOT_OURS;
	to_exit_mac(skb);
	return bpf_redirect_peer(config.exit, 0);
}
