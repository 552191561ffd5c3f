// SPDX-License-Identifier: GPL-2.0-only
/* What each network's tenant is charged for: bytes of IP packets by kind, one set of counters for each network and CPU.
 * They only grow; before a slot gets another network, the agent has read and zeroed them.
 *
 * Traffic within the network and with external servers is counted at pods' veths, as the pod sends and receives it;
 * that of node ports and load balancer addresses where it enters and leaves the node. */
#pragma once

#include "endpoint.h"
#include "network.h"
#include "port.h"

struct meter {
	__u64 network_out;	/* to other endpoints of the network, gateways included */
	__u64 network_in;
	__u64 world_out;	/* to external addresses, by connections that pods opened */
	__u64 world_in;
	__u64 node_port_out;
	__u64 node_port_in;
	__u64 balancer_out;	/* by addresses of load balancers */
	__u64 balancer_in;
};
_Static_assert(sizeof(struct meter) == 64, "meter");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMORIES);
	__type(key, __u32);
	__type(value, struct meter);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} meters SEC(".maps");

/* The counters for the packet; NULL if it is not counted. Only a dry run's packet has a mark: that of a pod's packet
 * does not leave its network namespace. */
INLINE struct meter *meter_of(const struct __sk_buff *skb, __u32 slot)
{
	return skb->mark ? NULL : bpf_map_lookup_elem(&meters, &slot);
}

INLINE __u64 ip_bytes(const struct __sk_buff *skb)
{
	return skb->len - ETH_HLEN;
}

/* A packet from a port to another node, before it is encapsulated. */
INLINE void meter_sent(const struct __sk_buff *skb, const struct port *port)
{
	struct meter *meter;

	if (port->flags & PORT_GATEWAY)
		return;
	meter = meter_of(skb, port->memory);
	if (meter)
		meter->network_out += ip_bytes(skb);
}

INLINE void meter_sent_to_world(const struct __sk_buff *skb, const struct port *port)
{
	struct meter *meter = meter_of(skb, port->memory);

	if (meter)
		meter->world_out += ip_bytes(skb);
}

/* A packet from another node, after it was decapsulated. */
INLINE void meter_received(const struct __sk_buff *skb, const struct endpoint *endpoint)
{
	struct meter *meter;

	if (endpoint->flags & ENDPOINT_GATEWAY)
		return;
	meter = meter_of(skb, endpoint->memory);
	if (meter)
		meter->network_in += ip_bytes(skb);
}

/* A packet from one port of this node to another. What the gateway brings from clients of a node port was counted where
 * it entered the node. */
INLINE void meter_local(const struct __sk_buff *skb, const struct packet *pkt, const struct port *port,
			const struct endpoint *endpoint)
{
	struct meter *meter = meter_of(skb, port->memory);

	if (!meter)
		return;
	if (!(port->flags & PORT_GATEWAY))
		meter->network_out += ip_bytes(skb);
	if (endpoint->flags & ENDPOINT_GATEWAY || pkt->way == WAY_DOOR)
		return;
	if (pkt->way == WAY_WORLD)
		meter->world_in += ip_bytes(skb);
	else
		meter->network_in += ip_bytes(skb);
}

/* A packet of a pod that is its own backend. */
INLINE void meter_hairpin(const struct __sk_buff *skb, const struct port *port)
{
	struct meter *meter = meter_of(skb, port->memory);

	if (!meter)
		return;
	meter->network_out += ip_bytes(skb);
	meter->network_in += ip_bytes(skb);
}

#define DOOR_BALANCER 0x1	/* the address is a load balancer's, not the node's */
#define DOOR_SLOT_SHIFT 1

/* A packet that enters or leaves the node by a node port; `door` is its entry. */
INLINE void meter_door(const struct __sk_buff *skb, __u32 door, bool enters)
{
	struct meter *meter = meter_of(skb, door >> DOOR_SLOT_SHIFT);

	if (!meter)
		return;
	if (door & DOOR_BALANCER) {
		*(enters ? &meter->balancer_in : &meter->balancer_out) += ip_bytes(skb);
		return;
	}
	*(enters ? &meter->node_port_in : &meter->node_port_out) += ip_bytes(skb);
}
