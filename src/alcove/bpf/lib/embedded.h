// SPDX-License-Identifier: GPL-2.0-only
/* ICMP errors contain the start of the packet that caused them. */
#pragma once

#include "packet.h"

struct embedded_ip4 {
	struct iphdr ip;
	__be16 ports[4];
};

struct embedded_ip6 {
	struct ipv6hdr ip;
	__be16 ports[4];
};

INLINE void embedded_ports(struct tuple *flow, const __be16 *ports)
{
	bool echo = flow->proto == IPPROTO_ICMP || flow->proto == IPPROTO_ICMPV6;

	flow->sport = echo ? ports[2] : ports[0];
	flow->dport = echo ? ports[2] : ports[1];
}

/* The flow that an ICMP error refers to, as its sender sent it. */
INLINE bool embedded_flow(struct __sk_buff *skb, const struct packet *pkt, struct tuple *flow)
{
	struct embedded_ip4 inner4;
	struct embedded_ip6 inner6;

	*flow = (struct tuple){};
	if (pkt->family == 4) {
		if (bpf_skb_load_bytes(skb, pkt->l4 + 8, &inner4, sizeof(inner4)) || inner4.ip.ihl != 5)
			return false;
		address_of_ip4(&flow->source, inner4.ip.saddr);
		address_of_ip4(&flow->target, inner4.ip.daddr);
		flow->proto = inner4.ip.protocol;
		embedded_ports(flow, inner4.ports);
		return true;
	}
	if (bpf_skb_load_bytes(skb, pkt->l4 + 8, &inner6, sizeof(inner6)))
		return false;
	address_of_ip6(&flow->source, &inner6.ip.saddr);
	address_of_ip6(&flow->target, &inner6.ip.daddr);
	flow->proto = inner6.ip.nexthdr;
	embedded_ports(flow, inner6.ports);
	return true;
}
