// SPDX-License-Identifier: GPL-2.0-only
/* At the host side of a pod's or gateway's veth: everything that it sends. Nothing passes to the host. */
#include "lib/deliver.h"
#include "lib/drop.h"
#include "lib/fragment.h"
#include "lib/rate.h"

/* Allowed source addresses: the endpoint's own; for a gateway also external ones, but no other endpoint's. */
INLINE int check_source(struct __sk_buff *skb, const struct packet *pkt, const struct port *port)
{
	const struct endpoint *endpoint;
	const struct route *route;

	if (port_owns_source(port, pkt))
		return REASON_NONE;
	if (!(port->flags & PORT_GATEWAY))
		return REASON_SPOOFED_ADDRESS;
	endpoint = endpoint_of(port->vni, &pkt->flow.source);
	if (endpoint)
		return endpoint->ifindex == skb->ifindex ? REASON_NONE : REASON_SPOOFED_ADDRESS;
	route = route_of(port->vni, &pkt->flow.source);
	return !route || route->kind == ROUTE_WORLD ? REASON_NONE : REASON_SPOOFED_ADDRESS;
}

INLINE bool speaks_as_gateway(const struct packet *pkt, const struct port *port)
{
	const struct endpoint *self;

	if (!(port->flags & PORT_GATEWAY))
		return false;
	self = endpoint_of(port->vni, &pkt->flow.source);
	return self && self->flags & ENDPOINT_ANYCAST;
}

INLINE int check_policy(struct __sk_buff *skb, struct packet *pkt, const struct port *port,
			const struct endpoint *target)
{
	struct profiles ends = { .source_in = port->policy_in, .source_out = port->policy_out };

	if (target) {
		ends.target_in = target->policy_in;
		ends.target_out = target->policy_out;
	}
	if (!has_policy(&ends)) {
		note_opener(skb, pkt, port->memory, speaks_as_gateway(pkt, port) ? FLOW_EXEMPT : 0);
		return REASON_NONE;
	}
	ends.exempt = speaks_as_gateway(pkt, port);
	return policy(skb, pkt, &ends, port->memory);
}

INLINE int to_known(struct __sk_buff *skb, struct packet *pkt, const struct port *port,
		    const struct endpoint *endpoint)
{
	int reason;

	if (!(endpoint->flags & ENDPOINT_LOCAL)) {
		count_path(PATH_DIRECT);
		meter_sent(skb, port);
		return send_to_node(skb, pkt, endpoint->node, port->priority, port->tos);
	}
	if (port->flags & PORT_BACKEND) {
		reason = service_reverse(skb, pkt, port->memory);
		if (reason)
			return -reason;
	}
	count_path(PATH_LOCAL);
	meter_local(skb, pkt, port, endpoint);
	return into_endpoint(skb, endpoint);
}

/* External clients may reach a service with their own address; replies to them are recognised by that. */
INLINE int to_world(struct __sk_buff *skb, struct packet *pkt, const struct port *port, const struct route *route)
{
	bool answers = false;
	int reason;

	/* The gateway's own egress traffic uses another link. */
	if (route->ifindex == skb->ifindex)
		return -REASON_NO_ROUTE;
	if (port->flags & PORT_BACKEND) {
		reason = service_reverse(skb, pkt, port->memory);
		if (reason)
			return -reason;
		answers = !port_owns_source(port, pkt);
	}
	if (!answers && is_forbidden(&pkt->flow.target))
		return -REASON_UNDERLAY;
	count_path(PATH_GATEWAY);
	if (!answers)
		meter_sent_to_world(skb, port);
	return into_port(skb, route->ifindex, route->mac);
}

/* Selects the bouncer or divider to send to for an unknown address. */
INLINE int to_unknown(struct __sk_buff *skb, struct packet *pkt, const struct port *port)
{
	const struct route *route;
	void *memory;
	__be32 node;

	memory = memory_of(port->memory);
	node = memory ? learned_node(memory, &pkt->flow.target) : 0;
	if (node) {
		count_path(PATH_LEARNED);
		meter_sent(skb, port);
		return send_to_node(skb, pkt, node, port->priority, port->tos);
	}
	route = route_of(port->vni, &pkt->flow.target);
	if (!route || route->kind == ROUTE_SERVICE)
		return -REASON_NO_ROUTE;
	if (route->kind == ROUTE_WORLD)
		return to_world(skb, pkt, port, route);
	if (route->flags & ROUTE_SELF || !route->count)
		return -REASON_NO_ENDPOINT;
	count_path(route->kind == ROUTE_SUBNET ? PATH_BOUNCER : PATH_DIVIDER);
	meter_sent(skb, port);
	return send_to_node(skb, pkt, route_node(route, &pkt->flow.target), port->priority, port->tos);
}

/* A pod that is its own backend replies to the hairpin address: the reply is turned round here. */
INLINE int hairpin_back(struct __sk_buff *skb, struct packet *pkt, const struct port *port)
{
	int reason = service_reverse(skb, pkt, port->memory);

	if (reason)
		return -reason;
	if (address_is_hairpin(&pkt->flow.target))
		return -REASON_NO_ROUTE;
	meter_hairpin(skb, port);
	return into_port(skb, skb->ifindex, port->mac);
}

INLINE bool needs_ports(const struct port *port, const struct endpoint *target)
{
	return port->flags & (PORT_SERVICES | PORT_BACKEND) || port->policy_in | port->policy_out ||
	       (target && target->policy_in | target->policy_out);
}

INLINE bool is_nodes(const struct packet *pkt)
{
	__be32 target = pkt->flow.target.word[3];

	if (pkt->family == 6)
		return for_node6(&pkt->flow.target);
	return target == config.node || node_of(target);
}

/* Services: looked up by the packet's target address, or, if that is a node's, as a node port of any node. It leads to
 * the network's own backends, and never out of the network. */
INLINE int translate(struct __sk_buff *skb, struct packet *pkt, const struct port *port,
		     const struct endpoint **endpoint)
{
	int reason = service_forward(skb, pkt, port->memory, AT_TARGET);

	if (reason)
		return reason;
	*endpoint = endpoint_of(port->vni, &pkt->flow.target);
	if (*endpoint || !is_nodes(pkt))
		return REASON_NONE;
	reason = service_forward(skb, pkt, port->memory, AT_ANY_NODE);
	if (!reason)
		*endpoint = endpoint_of(port->vni, &pkt->flow.target);
	return reason;
}

/* Packets with external sources come from the gateway: replies are for the pod itself, those of clients for a service. */
INLINE __u8 find_way(const struct packet *pkt, const struct port *port)
{
	const struct route *route;

	if (!(port->flags & PORT_GATEWAY) || endpoint_of(port->vni, &pkt->flow.source))
		return WAY_NETWORK;
	route = route_of(port->vni, &pkt->flow.target);
	return route && route->kind == ROUTE_SERVICE ? WAY_DOOR : WAY_WORLD;
}

INLINE int from_port(struct __sk_buff *skb, struct packet *pkt, const struct port *port)
{
	const struct endpoint *endpoint = NULL;
	int reason;

	pkt->way = find_way(pkt, port);
	if (!(port->flags & PORT_SERVICES))
		endpoint = endpoint_of(port->vni, &pkt->flow.target);
	if (pkt->fragment && needs_ports(port, endpoint)) {
		reason = fragment_ports(pkt, port->memory);
		if (reason)
			return -reason;
	}
	if (port->flags & PORT_SERVICES) {
		if (address_is_hairpin(&pkt->flow.target))
			return hairpin_back(skb, pkt, port);
		reason = translate(skb, pkt, port, &endpoint);
		if (reason)
			return -reason;
		if (address_is_hairpin(&pkt->flow.source)) {
			meter_hairpin(skb, port);
			return into_port(skb, skb->ifindex, port->mac);
		}
	}
	reason = check_policy(skb, pkt, port, endpoint);
	if (reason)
		return -reason;
	if (endpoint)
		return to_known(skb, pkt, port, endpoint);
	return to_unknown(skb, pkt, port);
}

INLINE int from_pod_frame(struct __sk_buff *skb, struct packet *pkt, const struct port *port)
{
	struct ethhdr *eth = header(skb, 0, sizeof(*eth));
	int reason;

	if (!eth)
		return -REASON_TRUNCATED;
	if (skb->vlan_present)
		return -REASON_NOT_IP;
	if (!mac_equal(eth->h_source, port->mac))
		return -REASON_SPOOFED_MAC;
	if (rate_exceeded(skb, port))
		return -REASON_RATE_LIMIT;
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return answer_arp(skb, port);
	if (skb->protocol == bpf_htons(ETH_P_IPV6) && is_neighbor_discovery(skb))
		return answer_nd(skb, port);
	reason = parse(skb, pkt, skb->protocol);
	if (!reason)
		reason = check_source(skb, pkt, port);
	if (reason)
		return -reason;
	return from_port(skb, pkt, port);
}

/* A drop is recorded for the pod that caused it, also if the packet does not say so. */
INLINE void blame(struct packet *pkt, const struct port *port)
{
	if (port->flags & PORT_GATEWAY || (pkt->family && port_owns_source(port, pkt)))
		return;
	pkt->flow.source = pkt->family == 6 ? port->address6 : port->address4;
}

SEC("tc")
int from_pod(struct __sk_buff *skb)
{
	const struct port *port = port_of(skb);
	struct packet pkt = {};
	int verdict = -REASON_UNKNOWN_PORT;

	if (port) {
		pkt.vni = port->vni;
		verdict = from_pod_frame(skb, &pkt, port);
		if (verdict < 0)
			blame(&pkt, port);
	}
	return verdict < 0 ? drop(skb, &pkt, -verdict) : verdict;
}
