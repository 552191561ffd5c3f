// SPDX-License-Identifier: GPL-2.0-only
/* A packet, parsed once. Parsing rejects everything that no legitimate pod sends. */
#pragma once

#include "address.h"
#include "reason.h"

/* One direction of a connection; also the key of a network's memory (flow.h). */
struct tuple {
	struct address source;
	struct address target;
	__be16 sport;		/* ICMP echo: its identifier, in both ports */
	__be16 dport;
	__u8 proto;
	__u8 kind;		/* in a key: the kind of entry; otherwise 0 */
	__u16 pad;
};
_Static_assert(sizeof(struct tuple) == 40, "tuple");

enum fragment { FRAGMENT_NONE, FRAGMENT_FIRST, FRAGMENT_LATER };

/* How a packet has come to its network: from one of its endpoints, from an external server that a pod has connected to,
 * or from an external client, by a node port. */
enum way { WAY_NETWORK, WAY_WORLD, WAY_DOOR };

struct packet {
	struct tuple flow;
	__u64 policy;
	__u32 vni;
	__u32 fragment_id;
	__u16 l3;
	__u16 l4;
	__u8 family;		/* 4 or 6 */
	__u8 fragment;
	bool opens;		/* starts a connection: TCP SYN, ICMP echo request */
	bool closes;		/* TCP FIN or RST */
	bool icmp_error;
	__u8 tcp_flags;
	bool reply;		/* refused by policy as a reply: the opener is its target */
	__u8 way;
};

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* A bound of the packet, read again: a value that the compiler kept in 32 bits is no longer a pointer. */
INLINE void *fresh(__u32 bound)
{
	void *pointer = (void *)(long)bound;

	asm volatile("" : "+r"(pointer));
	return pointer;
}

/* `size` readable bytes at `offset`, or NULL. Invalidates earlier pointers into the packet. */
INLINE void *header(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	void *data = fresh(*(volatile __u32 *)&skb->data);

	if (data + offset + size <= fresh(*(volatile __u32 *)&skb->data_end))
		return data + offset;
	if (bpf_skb_pull_data(skb, offset + size))
		return NULL;
	data = fresh(*(volatile __u32 *)&skb->data);
	if (data + offset + size > fresh(*(volatile __u32 *)&skb->data_end))
		return NULL;
	return data + offset;
}

INLINE int parse_tcp(struct __sk_buff *skb, struct packet *pkt, __u32 l4)
{
	__u8 *tcp = header(skb, l4, sizeof(struct tcphdr));
	__u8 flags;

	if (!tcp)
		return pkt->fragment ? REASON_TINY_FRAGMENT : REASON_TRUNCATED;
	if ((tcp[12] >> 4) < 5)
		return REASON_MALFORMED;
	flags = tcp[13];
	if ((flags & (TCP_SYN | TCP_FIN)) == (TCP_SYN | TCP_FIN) ||
	    (flags & (TCP_SYN | TCP_RST)) == (TCP_SYN | TCP_RST))
		return REASON_MALFORMED;
	pkt->flow.sport = *(__be16 *)tcp;
	pkt->flow.dport = *(__be16 *)(tcp + 2);
	pkt->tcp_flags = flags;
	pkt->opens = (flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	pkt->closes = flags & (TCP_FIN | TCP_RST);
	return REASON_NONE;
}

INLINE int parse_ports(struct __sk_buff *skb, struct packet *pkt, __u32 l4, __u32 size)
{
	__be16 *ports = header(skb, l4, size);

	if (!ports)
		return pkt->fragment ? REASON_TINY_FRAGMENT : REASON_TRUNCATED;
	pkt->flow.sport = ports[0];
	pkt->flow.dport = ports[1];
	return REASON_NONE;
}

INLINE int parse_icmp(struct __sk_buff *skb, struct packet *pkt, __u32 l4)
{
	struct icmphdr *icmp = header(skb, l4, sizeof(*icmp));

	if (!icmp)
		return pkt->fragment ? REASON_TINY_FRAGMENT : REASON_TRUNCATED;
	switch (icmp->type) {
	case ICMP_ECHO:
	case ICMP_TIMESTAMP:
		pkt->opens = true;
		/* fall through */
	case ICMP_ECHOREPLY:
	case ICMP_TIMESTAMPREPLY:
		pkt->flow.sport = pkt->flow.dport = icmp->id;
		return REASON_NONE;
	case ICMP_DEST_UNREACH:
	case ICMP_TIME_EXCEEDED:
	case ICMP_PARAMETERPROB:
		pkt->icmp_error = true;
		return REASON_NONE;
	}
	return REASON_BAD_ICMP;
}

INLINE int parse_icmp6(struct __sk_buff *skb, struct packet *pkt, __u32 l4)
{
	struct icmp6hdr *icmp = header(skb, l4, sizeof(*icmp));

	if (!icmp)
		return pkt->fragment ? REASON_TINY_FRAGMENT : REASON_TRUNCATED;
	switch (icmp->icmp6_type) {
	case ICMPV6_ECHO_REQUEST:
		pkt->opens = true;
		/* fall through */
	case ICMPV6_ECHO_REPLY:
		pkt->flow.sport = pkt->flow.dport = icmp->icmp6_identifier;
		return REASON_NONE;
	case ICMPV6_DEST_UNREACH:
	case ICMPV6_PKT_TOOBIG:
	case ICMPV6_TIME_EXCEED:
	case ICMPV6_PARAMPROB:
		pkt->icmp_error = true;
		return REASON_NONE;
	}
	return REASON_BAD_ICMP;
}

INLINE int parse_l4(struct __sk_buff *skb, struct packet *pkt)
{
	__u32 l4 = pkt->l4;

	switch (pkt->flow.proto) {
	case IPPROTO_TCP:
		return parse_tcp(skb, pkt, l4);
	case IPPROTO_UDP:
		return parse_ports(skb, pkt, l4, sizeof(struct udphdr));
	case IPPROTO_SCTP:
		return parse_ports(skb, pkt, l4, 12);
	case IPPROTO_ICMP:
		return pkt->family == 4 ? parse_icmp(skb, pkt, l4) : REASON_BAD_ICMP;
	case IPPROTO_ICMPV6:
		return pkt->family == 6 ? parse_icmp6(skb, pkt, l4) : REASON_BAD_ICMP;
	}
	return REASON_NONE;
}

/* Classifies a fragment by offset (in 8-byte units) and rejects those that are crafted to hide something. */
INLINE int parse_fragment(struct packet *pkt, __u32 offset, bool more, __u32 payload)
{
	if (!offset && !more)
		return REASON_NONE;
	/* Offset 1 would overwrite a TCP header's flags; no legitimate sender uses such small fragments. */
	if (offset == 1 || (more && payload < 8))
		return REASON_TINY_FRAGMENT;
	if (offset * 8 + payload > 65535)
		return REASON_BAD_LENGTH;
	pkt->fragment = offset ? FRAGMENT_LATER : FRAGMENT_FIRST;
	return REASON_NONE;
}

INLINE int parse_ip4(struct __sk_buff *skb, struct packet *pkt, __u32 l3)
{
	struct iphdr *ip = header(skb, l3, sizeof(*ip));
	__u32 length, fragment;
	int reason;

	if (!ip)
		return REASON_TRUNCATED;
	if (ip->version != 4 || ip->ihl < 5)
		return REASON_MALFORMED;
	if (ip->ihl != 5)
		return REASON_IP_OPTIONS;
	length = bpf_ntohs(ip->tot_len);
	if (length < sizeof(*ip) || l3 + length > skb->len)
		return REASON_BAD_LENGTH;
	address_of_ip4(&pkt->flow.source, ip->saddr);
	address_of_ip4(&pkt->flow.target, ip->daddr);
	pkt->flow.proto = ip->protocol;
	pkt->family = 4;
	pkt->l3 = l3;
	pkt->l4 = l3 + sizeof(*ip);
	fragment = bpf_ntohs(ip->frag_off);
	if (fragment & 0x8000)
		return REASON_MALFORMED;
	pkt->fragment_id = ip->id;
	reason = parse_fragment(pkt, fragment & 0x1fff, fragment & 0x2000, length - sizeof(*ip));
	if (reason || pkt->fragment == FRAGMENT_LATER)
		return reason;
	return parse_l4(skb, pkt);
}

#define IP6_HEADERS_MAX 4

struct extension {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__be32 id;
};

/* Skips hop-by-hop and destination options and one fragment header, up to the payload. */
INLINE int parse_extensions(struct __sk_buff *skb, struct packet *pkt, __u8 next, __u32 end)
{
	__u32 l4 = pkt->l4;
	int reason;

	for (int i = 0; i < IP6_HEADERS_MAX; i++) {
		struct extension *ext;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_DSTOPTS && next != IPPROTO_FRAGMENT)
			break;
		ext = header(skb, l4, sizeof(*ext));
		if (!ext)
			return REASON_TRUNCATED;
		if (next == IPPROTO_FRAGMENT) {
			__u32 fragment = bpf_ntohs(ext->fragment);

			if (pkt->fragment)
				return REASON_MALFORMED;
			pkt->fragment_id = ext->id;
			next = ext->next;
			l4 += sizeof(*ext);
			if (l4 > end)
				return REASON_BAD_LENGTH;
			reason = parse_fragment(pkt, fragment >> 3, fragment & 1, end - l4);
			if (reason)
				return reason;
			if (pkt->fragment == FRAGMENT_LATER)
				break;
			continue;
		}
		next = ext->next;
		l4 += (ext->length + 1) * 8;
		/* Options longer than this are an attack on the receiver's parser. */
		if (l4 > pkt->l3 + 256)
			return REASON_IP_OPTIONS;
	}
	switch (next) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_DSTOPTS:
	case IPPROTO_FRAGMENT:
	case IPPROTO_ROUTING:
		if (pkt->fragment != FRAGMENT_LATER)
			return REASON_IP_OPTIONS;
	}
	pkt->flow.proto = next;
	pkt->l4 = l4;
	return REASON_NONE;
}

INLINE int parse_ip6(struct __sk_buff *skb, struct packet *pkt, __u32 l3)
{
	struct ipv6hdr *ip = header(skb, l3, sizeof(*ip));
	__u32 end;
	__u8 next;
	int reason;

	if (!ip)
		return REASON_TRUNCATED;
	if (ip->version != 6)
		return REASON_MALFORMED;
	end = l3 + sizeof(*ip) + bpf_ntohs(ip->payload_len);
	if (end > skb->len || end == l3 + sizeof(*ip))
		return REASON_BAD_LENGTH;
	address_of_ip6(&pkt->flow.source, &ip->saddr);
	address_of_ip6(&pkt->flow.target, &ip->daddr);
	next = ip->nexthdr;
	pkt->family = 6;
	pkt->l3 = l3;
	pkt->l4 = l3 + sizeof(*ip);
	/* A mapped address on the wire would be taken for an IPv4 address here. */
	if (address_is_ip4(&pkt->flow.source) || address_is_ip4(&pkt->flow.target))
		return REASON_MARTIAN;
	pkt->flow.proto = next;
	if (next != IPPROTO_TCP && next != IPPROTO_UDP && next != IPPROTO_ICMPV6) {
		reason = parse_extensions(skb, pkt, next, end);
		if (reason || pkt->fragment == FRAGMENT_LATER)
			return reason;
	}
	return parse_l4(skb, pkt);
}

INLINE bool target_is_multicast(const struct packet *pkt)
{
	__u8 first = pkt->flow.target.word[0] & 0xff;

	if (pkt->family == 6)
		return first == 0xff;
	first = pkt->flow.target.word[3] & 0xff;
	return (first >= 224 && first < 240) || pkt->flow.target.word[3] == 0xffffffff;
}

/* Addresses of the local host, which must never arrive from the wire. */
INLINE bool target_is_martian(const struct packet *pkt)
{
	const struct address *target = &pkt->flow.target;
	__u8 first;

	if (pkt->family == 6)
		return (!target->word[0] && !target->word[1] && !target->word[2] &&
			bpf_ntohl(target->word[3]) <= 1) ||
		       (target->word[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
	first = target->word[3] & 0xff;
	return first == 0 || first == 127 || first >= 240;
}

INLINE int parse_at(struct __sk_buff *skb, struct packet *pkt, __u32 l3, __be16 protocol)
{
	int reason;

	if (protocol == bpf_htons(ETH_P_IP))
		reason = parse_ip4(skb, pkt, l3);
	else if (protocol == bpf_htons(ETH_P_IPV6))
		reason = parse_ip6(skb, pkt, l3);
	else
		return REASON_NOT_IP;
	if (reason)
		return reason;
	if (target_is_multicast(pkt))
		return REASON_MULTICAST;
	return target_is_martian(pkt) ? REASON_MARTIAN : REASON_NONE;
}

/* Parses a frame that starts with its MAC header. */
STAGE int parse(struct __sk_buff *skb, struct packet *pkt NONNULL, __u32 protocol)
{
	return parse_at(skb, pkt, ETH_HLEN, protocol);
}
