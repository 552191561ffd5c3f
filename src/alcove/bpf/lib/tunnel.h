// SPDX-License-Identifier: GPL-2.0-only
/* The tunnel: VXLAN over IPv4, encapsulated and decapsulated by the programs themselves.
 *
 * UDP that the kernel has not segmented yet (GSO) cannot be encapsulated here: it goes through the VXLAN device, which
 * has the same wire format. */
#pragma once

#include "config.h"
#include "drop.h"
#include "flow.h"
#include "node.h"
#include "path.h"

struct vxlan {
	__be32 flags;
	__be32 vni;		/* upper 24 bits */
};

struct outer {
	struct iphdr ip;
	struct udphdr udp;
	struct vxlan vxlan;
	struct ethhdr eth;	/* the inner frame's */
};
#define OUTER_SIZE 50		/* without the struct's padding */
_Static_assert(offsetof(struct outer, eth) + sizeof(struct ethhdr) == OUTER_SIZE, "outer");

#define VXLAN_HAS_VNI bpf_htonl(0x08000000)
#define TUNNEL_TTL 64
#define RELAY_COST 16		/* what a relay subtracts from the TTL: at most three relays between two nodes */
#define IP_DONT_FRAGMENT bpf_htons(0x4000)

INLINE __be16 ip4_checksum(const struct iphdr *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0;

	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

INLINE void fill_outer_ip(struct iphdr *ip, __be32 node, __u32 length, __u8 tos, __u8 ttl)
{
	/* A packet that is not segmented yet may exceed 64 KiB; each segment gets its own length. */
	if (length > 65535)
		length = 65535;
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = tos;
	ip->tot_len = bpf_htons(length);
	ip->id = 0;
	ip->frag_off = IP_DONT_FRAGMENT;
	ip->ttl = ttl;
	ip->protocol = IPPROTO_UDP;
	ip->check = 0;
	ip->saddr = config.node;
	ip->daddr = node;
	ip->check = ip4_checksum(ip);
}

INLINE int to_underlay(const struct node *node)
{
	struct bpf_redir_neigh next_hop = { .nh_family = AF_INET, .ipv4_nh = node->next_hop };

	return bpf_redirect_neigh(config.underlay, &next_hop, sizeof(next_hop), 0);
}

INLINE int send_by_device(struct __sk_buff *skb, __u32 vni, __be32 node, __u8 tos)
{
	struct bpf_tunnel_key key = {
		.tunnel_id = vni,
		.remote_ipv4 = bpf_ntohl(node),
		.tunnel_tos = tos,
		.tunnel_ttl = TUNNEL_TTL,
	};

	if (bpf_skb_set_tunnel_key(skb, &key, sizeof(key), BPF_F_ZERO_CSUM_TX | BPF_F_DONT_FRAGMENT))
		return -REASON_ENCAPSULATION;
	count_path(PATH_FALLBACK);
	return bpf_redirect(config.vxlan, 0);
}

#define ENCAP_FLAGS                                                                                   \
	(BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |      \
	 BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH)

INLINE void fill_outer(struct outer *outer, struct __sk_buff *skb, const struct packet *pkt, __be32 node, __u8 tos)
{
	__u32 length = skb->len - ETH_HLEN;

	fill_outer_ip(&outer->ip, node, length, tos, TUNNEL_TTL);
	outer->udp.source = bpf_htons(49152 + (tuple_hash(&pkt->flow) & 0x3fff));
	outer->udp.dest = config.tunnel_port;
	outer->udp.len = bpf_htons(length - sizeof(outer->ip));
	outer->udp.check = 0;
	outer->vxlan.flags = VXLAN_HAS_VNI;
	outer->vxlan.vni = bpf_htonl(pkt->vni << 8);
	/* Receivers overwrite the MACs; they only must differ from a VXLAN device's own. */
	copy_router_mac(outer->eth.h_dest);
	copy_router_mac(outer->eth.h_source);
	outer->eth.h_proto = pkt->family == 4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
}

/* Sends the packet to an endpoint's node. */
INLINE int send_to_node(struct __sk_buff *skb, const struct packet *pkt, __be32 address, __u32 priority, __u8 tos)
{
	const struct node *node = node_of(address);
	struct outer *outer;

	if (!node)
		return -REASON_NO_NODE;
	skb->priority = priority;
	if (pkt->flow.proto == IPPROTO_UDP && skb->gso_size)
		return send_by_device(skb, pkt->vni, address, tos);
	/* The device can encapsulate packets in which the kernel cannot make room here. */
	if (bpf_skb_adjust_room(skb, OUTER_SIZE, BPF_ADJ_ROOM_MAC, ENCAP_FLAGS))
		return send_by_device(skb, pkt->vni, address, tos);
	outer = header(skb, ETH_HLEN, OUTER_SIZE);
	if (!outer)
		return -REASON_ENCAPSULATION;
	fill_outer(outer, skb, pkt, address, tos);
	return to_underlay(node);
}

/* Removes the tunnel header; the remainder starts with a MAC header to be filled in. */
INLINE int decapsulate(struct __sk_buff *skb, struct packet *pkt)
{
	__u64 family = pkt->family == 4 ? ROOM_DECAP_L3_IP4 : ROOM_DECAP_L3_IP6;

	if (bpf_skb_adjust_room(skb, -OUTER_SIZE, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | family))
		return REASON_ENCAPSULATION;
	pkt->l3 -= OUTER_SIZE;
	pkt->l4 -= OUTER_SIZE;
	return REASON_NONE;
}
