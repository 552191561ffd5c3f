// SPDX-License-Identifier: GPL-2.0-only
/* Changes a packet's addresses and ports, and every checksum that covers them. */
#pragma once

#include "sctp.h"

/* Offset of the L4 checksum; 0 if there is none to update. */
INLINE __u32 checksum_offset(const struct packet *pkt)
{
	if (pkt->fragment == FRAGMENT_LATER)
		return 0;
	switch (pkt->flow.proto) {
	case IPPROTO_TCP:
		return pkt->l4 + offsetof(struct tcphdr, check);
	case IPPROTO_UDP:
		return pkt->l4 + offsetof(struct udphdr, check);
	case IPPROTO_ICMPV6:
		return pkt->l4 + offsetof(struct icmp6hdr, icmp6_cksum);
	}
	return 0;
}

/* A UDP checksum of zero means "none" and stays so; a computed zero is written as ones. */
INLINE __u64 checksum_flags(const struct packet *pkt)
{
	return pkt->flow.proto == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0;
}

/* The checksum that covers ports and, by its pseudo header, addresses. If a device is still to compute it, it covers
 * only the addresses so far; the kernel's helper knows this, the program cannot. */
INLINE int mend_word(struct __sk_buff *skb, __u32 at, __u32 before, __u32 after, __u64 flags)
{
	if (before == after)
		return REASON_NONE;
	return bpf_l4_csum_replace(skb, at, before, after, flags | 4) ? REASON_REWRITE : REASON_NONE;
}

INLINE int mend_checksum(struct __sk_buff *skb, const struct packet *pkt, const struct tuple *after)
{
	__u64 flags = checksum_flags(pkt), pseudo = flags | BPF_F_PSEUDO_HDR;
	const struct tuple *before = &pkt->flow;
	__u32 at = checksum_offset(pkt);
	int reason;

	if (!at)
		return REASON_NONE;
	if (pkt->family == 4) {
		reason = mend_word(skb, at, before->source.word[3], after->source.word[3], pseudo);
		if (!reason)
			reason = mend_word(skb, at, before->target.word[3], after->target.word[3], pseudo);
	} else {
		__s64 change = bpf_csum_diff((__be32 *)before, 32, (__be32 *)after, 32, 0);

		reason = bpf_l4_csum_replace(skb, at, 0, change, pseudo) ? REASON_REWRITE : REASON_NONE;
	}
	if (reason)
		return reason;
	return mend_word(skb, at, ((__u32)before->dport << 16) | before->sport,
			 ((__u32)after->dport << 16) | after->sport, flags);
}

INLINE bool has_ports(const struct packet *pkt)
{
	__u8 proto = pkt->flow.proto;

	return pkt->fragment != FRAGMENT_LATER &&
	       (proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP);
}

/* The new checksum of a header in which the word `before` was changed to `after`. */
INLINE __u32 sum_change(__u32 sum, __u32 before, __u32 after)
{
	sum += (~before & 0xffff) + (~before >> 16);
	return sum + (after & 0xffff) + (after >> 16);
}

/* Packets are rewritten as frames that start with the MAC header, so that offsets are constant. */
INLINE int write_ip4(struct __sk_buff *skb, const struct packet *pkt, const struct tuple *after)
{
	bool ports = has_ports(pkt);
	struct iphdr *ip = header(skb, ETH_HLEN, sizeof(*ip) + 4);
	__u32 sum;

	if (!ip)
		return REASON_REWRITE;
	sum = sum_change((__u16)~ip->check, ip->saddr, after->source.word[3]);
	sum = sum_change(sum, ip->daddr, after->target.word[3]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
	ip->saddr = after->source.word[3];
	ip->daddr = after->target.word[3];
	if (ports) {
		((__be16 *)(ip + 1))[0] = after->sport;
		((__be16 *)(ip + 1))[1] = after->dport;
	}
	return REASON_NONE;
}

INLINE int write_ip6(struct __sk_buff *skb, const struct packet *pkt, const struct tuple *after)
{
	__be16 ports[2] = { after->sport, after->dport };

	if (bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, saddr), after, 32, 0))
		return REASON_REWRITE;
	if (has_ports(pkt) && bpf_skb_store_bytes(skb, pkt->l4, ports, sizeof(ports), 0))
		return REASON_REWRITE;
	return REASON_NONE;
}

/* Rewrites the packet to the flow `after`. */
STAGE int rewrite(struct __sk_buff *skb, struct packet *pkt NONNULL, const struct tuple *after NONNULL)
{
	int reason;

	if (pkt->flow.proto == IPPROTO_SCTP && has_ports(pkt))
		reason = sctp_mend_checksum(skb, pkt, after);
	else
		reason = mend_checksum(skb, pkt, after);
	if (!reason)
		reason = pkt->family == 4 ? write_ip4(skb, pkt, after) : write_ip6(skb, pkt, after);
	pkt->flow.source = after->source;
	pkt->flow.target = after->target;
	pkt->flow.sport = after->sport;
	pkt->flow.dport = after->dport;
	return reason;
}
