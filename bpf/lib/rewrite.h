// SPDX-License-Identifier: GPL-2.0-only
/* Changing a packet's addresses and ports, with every checksum that covers them. */
#pragma once

#include "sctp.h"

/* Where the L4 checksum is, 0: there is none to mend. */
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

/* A UDP checksum of zero means "none": it stays so, and a computed zero is written as ones. */
INLINE __u64 checksum_flags(const struct packet *pkt)
{
	return pkt->flow.proto == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0;
}

INLINE int rewrite_address(struct __sk_buff *skb, const struct packet *pkt, const struct address *before,
			   const struct address *after, bool source)
{
	__u32 checksum = checksum_offset(pkt), at;
	__u64 flags = checksum_flags(pkt) | BPF_F_PSEUDO_HDR;
	__s64 change;

	if (address_equal(before, after))
		return REASON_NONE;
	if (pkt->family == 4) {
		at = pkt->l3 + (source ? offsetof(struct iphdr, saddr) : offsetof(struct iphdr, daddr));
		if (checksum && bpf_l4_csum_replace(skb, checksum, before->word[3], after->word[3], flags | 4))
			return REASON_REWRITE;
		if (bpf_l3_csum_replace(skb, pkt->l3 + offsetof(struct iphdr, check), before->word[3],
					after->word[3], 4))
			return REASON_REWRITE;
		return bpf_skb_store_bytes(skb, at, &after->word[3], 4, 0) ? REASON_REWRITE : REASON_NONE;
	}
	at = pkt->l3 + (source ? offsetof(struct ipv6hdr, saddr) : offsetof(struct ipv6hdr, daddr));
	change = bpf_csum_diff((__be32 *)before, sizeof(*before), (__be32 *)after, sizeof(*after), 0);
	if (checksum && bpf_l4_csum_replace(skb, checksum, 0, change, flags))
		return REASON_REWRITE;
	return bpf_skb_store_bytes(skb, at, after, sizeof(*after), 0) ? REASON_REWRITE : REASON_NONE;
}

INLINE int rewrite_port(struct __sk_buff *skb, const struct packet *pkt, __be16 before, __be16 after, __u32 at)
{
	__u32 checksum = checksum_offset(pkt);

	if (before == after || pkt->fragment == FRAGMENT_LATER)
		return REASON_NONE;
	if (checksum && bpf_l4_csum_replace(skb, checksum, before, after, checksum_flags(pkt) | 2))
		return REASON_REWRITE;
	return bpf_skb_store_bytes(skb, pkt->l4 + at, &after, 2, 0) ? REASON_REWRITE : REASON_NONE;
}

INLINE int rewrite_ports(struct __sk_buff *skb, const struct packet *pkt, const struct tuple *after)
{
	int reason;

	if (pkt->fragment == FRAGMENT_LATER)
		return REASON_NONE;
	if (pkt->flow.proto == IPPROTO_SCTP)
		return sctp_rewrite_ports(skb, pkt->l4, ((__u32)pkt->flow.dport << 16) | pkt->flow.sport,
					  ((__u32)after->dport << 16) | after->sport);
	reason = rewrite_port(skb, pkt, pkt->flow.sport, after->sport, 0);
	return reason ? reason : rewrite_port(skb, pkt, pkt->flow.dport, after->dport, 2);
}

/* Makes the packet be of the flow `after`. */
STAGE int rewrite(struct __sk_buff *skb, struct packet *pkt NONNULL, const struct tuple *after NONNULL)
{
	int reason = rewrite_address(skb, pkt, &pkt->flow.source, &after->source, true);

	if (!reason)
		reason = rewrite_address(skb, pkt, &pkt->flow.target, &after->target, false);
	if (!reason)
		reason = rewrite_ports(skb, pkt, after);
	pkt->flow.source = after->source;
	pkt->flow.target = after->target;
	pkt->flow.sport = after->sport;
	pkt->flow.dport = after->dport;
	return reason;
}
