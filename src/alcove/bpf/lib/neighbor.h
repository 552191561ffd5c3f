// SPDX-License-Identifier: GPL-2.0-only
/* ARP and neighbour discovery are answered here: every neighbour has the router's MAC. */
#pragma once

#include "config.h"
#include "port.h"

struct arp {
	struct ethhdr eth;
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_size;
	__u8 protocol_size;
	__be16 operation;
	__u8 sender_mac[6];
	__u8 sender_ip[4];
	__u8 target_mac[6];
	__u8 target_ip[4];
} __attribute__((packed));

INLINE bool mac_equal(const __u8 *a, const __u8 *b)
{
	return *(__u32 *)a == *(__u32 *)b && *(__u16 *)(a + 4) == *(__u16 *)(b + 4);
}

/* Redirected into the pod and not sent through the host side, which may still be down when the pod's side is up. */
INLINE int turn_round(struct __sk_buff *skb)
{
	return bpf_redirect_peer(skb->ifindex, 0);
}

INLINE __be32 ip4_at(const __u8 *bytes)
{
	__be32 ip;

	__builtin_memcpy(&ip, bytes, 4);
	return ip;
}

/* A probe (sender 0.0.0.0) or announcement of the pod's own address must not be answered. */
INLINE int check_arp(const struct arp *arp, const struct port *port)
{
	__be32 own = port->address4.word[3], sender = ip4_at(arp->sender_ip);

	if (arp->hardware != bpf_htons(ARPHRD_ETHER) || arp->protocol != bpf_htons(ETH_P_IP) ||
	    arp->hardware_size != 6 || arp->protocol_size != 4)
		return REASON_MALFORMED;
	if (!mac_equal(arp->sender_mac, port->mac))
		return REASON_SPOOFED_NEIGHBOR;
	if (!(port->flags & PORT_GATEWAY) && sender && sender != own)
		return REASON_SPOOFED_NEIGHBOR;
	if (arp->operation != bpf_htons(ARPOP_REQUEST) || ip4_at(arp->target_ip) == own ||
	    ip4_at(arp->target_ip) == sender)
		return REASON_NEIGHBOR_IGNORED;
	return REASON_NONE;
}

STAGE int answer_arp(struct __sk_buff *skb, const struct port *port NONNULL)
{
	struct arp *arp = header(skb, 0, sizeof(*arp));
	__u8 asked[4];
	int reason;

	if (!arp)
		return -REASON_TRUNCATED;
	reason = check_arp(arp, port);
	if (reason)
		return -reason;
	__builtin_memcpy(asked, arp->target_ip, 4);
	__builtin_memcpy(arp->target_ip, arp->sender_ip, 4);
	__builtin_memcpy(arp->target_mac, arp->sender_mac, 6);
	__builtin_memcpy(arp->eth.h_dest, arp->sender_mac, 6);
	__builtin_memcpy(arp->sender_ip, asked, 4);
	copy_router_mac(arp->sender_mac);
	copy_router_mac(arp->eth.h_source);
	arp->operation = bpf_htons(ARPOP_REPLY);
	return turn_round(skb);
}

#define ND_ROUTER_SOLICIT 133
#define ND_NEIGHBOR_SOLICIT 135
#define ND_NEIGHBOR_ADVERT 136
#define ND_REDIRECT 137
#define ND_OPTION_TARGET_MAC 2

struct nd {
	struct ethhdr eth;
	struct ipv6hdr ip;
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 flags;
	struct address target;
	__u8 option;
	__u8 option_length;
	__u8 mac[6];
} __attribute__((packed));
#define ND_SIZE 86
_Static_assert(sizeof(struct nd) == ND_SIZE, "nd");
#define ND_BARE (ND_SIZE - 8)	/* without the option */

INLINE bool is_neighbor_discovery(struct __sk_buff *skb)
{
	struct ipv6hdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + 1);
	__u8 type;

	if (!ip || ip->nexthdr != IPPROTO_ICMPV6)
		return false;
	type = *(__u8 *)(ip + 1);
	return type >= ND_ROUTER_SOLICIT && type <= ND_REDIRECT;
}

INLINE bool is_link_local(const struct in6_addr *ip)
{
	return (ip->s6_addr32[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

INLINE bool is_unspecified(const struct in6_addr *ip)
{
	return !(ip->s6_addr32[0] | ip->s6_addr32[1] | ip->s6_addr32[2] | ip->s6_addr32[3]);
}

/* The sender is the port, by its address or a link-local one; link-local packets are not forwarded. */
INLINE int check_nd(const struct nd *nd, const struct port *port)
{
	struct address source, target;

	address_of_ip6(&source, &nd->ip.saddr);
	__builtin_memcpy(&target, &nd->target, sizeof(target));
	if (is_unspecified(&nd->ip.saddr))
		return REASON_NEIGHBOR_IGNORED;
	if (!is_link_local(&nd->ip.saddr) && !address_equal(&source, &port->address6) &&
	    !(port->flags & PORT_GATEWAY))
		return REASON_SPOOFED_NEIGHBOR;
	if (nd->type == ND_NEIGHBOR_ADVERT && !address_equal(&target, &port->address6) &&
	    !is_link_local((struct in6_addr *)&target))
		return REASON_SPOOFED_NEIGHBOR;
	if (nd->type != ND_NEIGHBOR_SOLICIT || address_equal(&target, &port->address6))
		return REASON_NEIGHBOR_IGNORED;
	return nd->ip.hop_limit == 255 && !nd->code ? REASON_NONE : REASON_MALFORMED;
}

INLINE __be16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Covered by the checksum: addresses, length, next header, then the message. */
INLINE __be16 nd_checksum(const struct nd *nd)
{
	struct {
		struct in6_addr source, target;
		__be32 length, next;
		__u8 message[32];
	} covered = {
		.length = bpf_htonl(32),
		.next = bpf_htonl(IPPROTO_ICMPV6),
	};

	__builtin_memcpy(&covered.source, &nd->ip.saddr, 32);
	__builtin_memcpy(covered.message, &nd->type, 32);
	return fold(bpf_csum_diff(NULL, 0, (__be32 *)&covered, sizeof(covered), 0));
}

STAGE int answer_nd(struct __sk_buff *skb, const struct port *port NONNULL)
{
	struct nd *nd = header(skb, 0, ND_BARE);
	int reason;

	if (!nd)
		return -REASON_TRUNCATED;
	if (!mac_equal(nd->eth.h_source, port->mac))
		return -REASON_SPOOFED_MAC;
	reason = check_nd(nd, port);
	if (reason)
		return -reason;
	if (bpf_skb_change_tail(skb, ND_SIZE, 0))
		return -REASON_REWRITE;
	nd = header(skb, 0, ND_SIZE);
	if (!nd)
		return -REASON_TRUNCATED;
	__builtin_memcpy(nd->eth.h_dest, port->mac, 6);
	copy_router_mac(nd->eth.h_source);
	nd->ip.daddr = nd->ip.saddr;
	__builtin_memcpy(&nd->ip.saddr, &nd->target, 16);
	nd->ip.payload_len = bpf_htons(32);
	nd->ip.hop_limit = 255;
	nd->type = ND_NEIGHBOR_ADVERT;
	nd->flags = bpf_htonl(0x60000000);	/* solicited, override */
	nd->option = ND_OPTION_TARGET_MAC;
	nd->option_length = 1;
	copy_router_mac(nd->mac);
	nd->checksum = 0;
	nd->checksum = nd_checksum(nd);
	return turn_round(skb);
}
