// SPDX-License-Identifier: GPL-2.0-only
/* Shared by both tunnel entries: delivery of a packet to a local endpoint, subject to its policy. */
#pragma once

#include "deliver.h"
#include "fragment.h"

INLINE bool arrival_needs_memory(const struct endpoint *endpoint)
{
	return endpoint->flags & ENDPOINT_SERVICES || endpoint->policy_in | endpoint->policy_out;
}

/* Handles ports, policy and translation; the packet only has to be delivered afterwards. */
INLINE int arrive(struct __sk_buff *skb, struct packet *pkt, const struct endpoint *endpoint)
{
	struct profiles ends = { .target_in = endpoint->policy_in, .target_out = endpoint->policy_out };
	int reason;

	if (!has_policy(&ends))
		note_opener(skb, pkt, endpoint->memory, 0);
	if (!arrival_needs_memory(endpoint))
		return REASON_NONE;
	if (pkt->fragment) {
		reason = fragment_ports(pkt, endpoint->memory);
		if (reason)
			return reason;
	}
	if (has_policy(&ends)) {
		reason = policy(skb, pkt, &ends, endpoint->memory);
		if (reason)
			return reason;
	}
	return endpoint->flags & ENDPOINT_SERVICES ? service_reverse(skb, pkt, endpoint->memory) : REASON_NONE;
}

/* The node of an endpoint that is not local; 0 if it is unknown. */
INLINE __be32 onward(const struct packet *pkt, const struct endpoint *endpoint)
{
	const struct route *route;

	if (endpoint)
		return endpoint->node;
	route = route_of(pkt->vni, &pkt->flow.target);
	if (!route || (route->kind != ROUTE_SUBNET && route->kind != ROUTE_VPC))
		return 0;
	if (route->flags & ROUTE_SELF)
		return 0;
	return route_node(route, &pkt->flow.target);
}
