// SPDX-License-Identifier: GPL-2.0-only
/* At the VXLAN device, the fallback: UDP that is not segmented yet (GSO), and packets that arrived in fragments. */
#include "lib/arrive.h"
#include "lib/drop.h"

INLINE int from_device(struct __sk_buff *skb, struct packet *pkt)
{
	const struct endpoint *endpoint;
	struct bpf_tunnel_key key = {};
	__be32 node;
	int reason;

	if (bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0))
		return -REASON_MALFORMED;
	pkt->vni = key.tunnel_id;
	if (!node_of(bpf_htonl(key.remote_ipv4)))
		return -REASON_FOREIGN_TUNNEL;
	reason = parse(skb, pkt, skb->protocol);
	if (reason)
		return -reason;
	count_path(PATH_FALLBACK);
	endpoint = endpoint_of(pkt->vni, &pkt->flow.target);
	if (!endpoint || !(endpoint->flags & ENDPOINT_LOCAL)) {
		node = onward(pkt, endpoint);
		if (!node || key.tunnel_ttl <= RELAY_COST)
			return -REASON_NO_ENDPOINT;
		count_path(PATH_RELAYED);
		return send_by_device(skb, pkt->vni, node, key.tunnel_tos);
	}
	reason = arrive(skb, pkt, endpoint);
	if (reason)
		return -reason;
	meter_received(skb, endpoint);
	return into_endpoint(skb, endpoint);
}

SEC("tc")
int from_vxlan(struct __sk_buff *skb)
{
	struct packet pkt = {};
	int verdict = from_device(skb, &pkt);

	return verdict < 0 ? drop(skb, &pkt, -verdict) : verdict;
}
