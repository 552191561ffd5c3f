// SPDX-License-Identifier: GPL-2.0-only
/* Services: a virtual address and port are translated to a backend's, and its replies back to the service's.
 *
 * Only the client's node translates. A service's backends are a set named by its content: changing them writes a new
 * set and then one service entry, so no packet sees a partial change.
 *
 * Packets sent to a backend directly must be distinguished from those sent through a service: a direct flow also gets
 * a translation (to the same address), and the second of two conflicting flows gets another source port. */
#pragma once

#include "embedded.h"
#include "flow.h"
#include "rewrite.h"

struct service_key {
	__u32 vni;
	struct address address;
	__be16 port;
	__u8 proto;
	__u8 pad;
};
_Static_assert(sizeof(struct service_key) == 24, "service_key");

struct service {
	__u64 set;		/* name of its set of backends */
	__u32 count;
	__u32 affinity_ticks;	/* 0: none */
	__u32 flags;
	__u32 pad;
};
_Static_assert(sizeof(struct service) == 24, "service");

#define SERVICE_DIRECT 0x1	/* not a service: the address and port of some service's backend */

struct backend_key {
	__u64 set;
	__u32 index;
	__u32 pad;
};
_Static_assert(sizeof(struct backend_key) == 16, "backend_key");

struct backend {
	struct address address;
	__be16 port;
	__u8 pad[6];
};
_Static_assert(sizeof(struct backend) == 24, "backend");

struct member_key {
	__u64 set;
	struct backend backend;
};
_Static_assert(sizeof(struct member_key) == 32, "member_key");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct service_key);
	__type(value, struct service);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 524288);
	__type(key, struct backend_key);
	__type(value, struct backend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} backends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 524288);
	__type(key, struct member_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} members SEC(".maps");

/* How long an unused entry still reserves its source port. */
#define TCP_IDLE_TICKS 6700	/* two hours */
#define UDP_IDLE_TICKS 112	/* two minutes */
#define CLAIM_TRIES 8

/* The address that a service is looked up by: the packet's target, or zero for any node's address. */
enum service_at { AT_TARGET, AT_ANY_NODE };

INLINE const struct service *service_of(const struct packet *pkt, __u32 at)
{
	struct service_key key = {
		.vni = pkt->vni,
		.port = pkt->flow.dport,
		.proto = pkt->flow.proto,
	};

	if (at == AT_TARGET)
		key.address = pkt->flow.target;
	else if (pkt->family == 4)
		address_of_ip4(&key.address, 0);
	return bpf_map_lookup_elem(&services, &key);
}

INLINE bool is_member(__u64 set, const struct address *address, __be16 port)
{
	struct member_key key = { .set = set, .backend = { .address = *address, .port = port } };

	return bpf_map_lookup_elem(&members, &key);
}

INLINE bool is_live(const struct flow *flow, __u8 proto)
{
	if (flow->flags & FLOW_CLOSED)
		return false;
	return idle_ticks(flow) < (proto == IPPROTO_UDP ? UDP_IDLE_TICKS : TCP_IDLE_TICKS);
}

/* The backend that this client was assigned before, if it is still a backend and the entry has not expired. */
INLINE bool choose_again(void *memory, const struct service *service, struct tuple *key, struct flow *choice)
{
	struct flow *known = recall(memory, key, FLOW_AFFINITY);

	if (!known || idle_ticks(known) > service->affinity_ticks)
		return false;
	if (!is_member(service->set, &known->peer, known->peer_port))
		return false;
	choice->peer = known->peer;
	choice->peer_port = known->peer_port;
	touch(known);
	return true;
}

INLINE int choose(void *memory, const struct service *service, const struct packet *pkt, struct flow *choice)
{
	struct backend_key key = { .set = service->set };
	const struct backend *backend;
	struct tuple client;

	if (service->flags & SERVICE_DIRECT) {
		choice->peer = pkt->flow.target;
		choice->peer_port = pkt->flow.dport;
		return REASON_NONE;
	}
	if (!service->count)
		return REASON_NO_BACKEND;
	client = pkt->flow;
	client.sport = 0;
	if (service->affinity_ticks && choose_again(memory, service, &client, choice))
		return REASON_NONE;
	key.index = tuple_hash(service->affinity_ticks ? &client : &pkt->flow) % service->count;
	backend = bpf_map_lookup_elem(&backends, &key);
	if (!backend)
		return REASON_NO_BACKEND;
	choice->peer = backend->address;
	choice->peer_port = backend->port;
	if (service->affinity_ticks) {
		struct flow affinity = { .peer = choice->peer, .peer_port = choice->peer_port };

		remember(memory, &client, FLOW_AFFINITY, &affinity);
	}
	return REASON_NONE;
}

/* The flow as the backend sees it: from the client to the backend, with the reserved source port. */
INLINE void translated(struct tuple *after, const struct tuple *before, const struct flow *choice)
{
	*after = *before;
	after->target = choice->peer;
	after->dport = choice->peer_port;
	after->sport = choice->own_port;
	if (choice->flags & FLOW_HAIRPIN)
		address_of_hairpin(&after->source, address_is_ip4(&before->source));
}

INLINE void reversed(struct tuple *key, const struct tuple *flow)
{
	key->source = flow->target;
	key->target = flow->source;
	key->sport = flow->dport;
	key->dport = flow->sport;
	key->proto = flow->proto;
	key->pad = 0;
}

/* Reserves the reverse flow from the backend: with the original source port, or one that no other flow to it uses. */
INLINE int claim(void *memory, const struct tuple *before, struct flow *choice)
{
	struct flow back = {
		.peer = before->target,
		.peer_port = before->dport,
		.own_port = before->sport,
		.flags = choice->flags & FLOW_HAIRPIN,
	};
	struct tuple after, key;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		const struct flow *owner;

		translated(&after, before, choice);
		reversed(&key, &after);
		owner = recall(memory, &key, FLOW_REVERSE);
		if (!owner || !is_live(owner, before->proto) ||
		    (owner->own_port == before->sport && owner->peer_port == before->dport &&
		     address_equal(&owner->peer, &before->target))) {
			remember(memory, &key, FLOW_REVERSE, &back);
			return REASON_NONE;
		}
		choice->own_port = bpf_htons(1024 + bpf_get_prandom_u32() % 64512);
	}
	return REASON_NO_SOURCE_PORT;
}

/* Selects a backend and stores both directions: the table evicts entries individually, so both are written. */
INLINE int open_flow(void *memory, const struct service *service, struct packet *pkt, struct flow *choice)
{
	struct flow *known = recall(memory, &pkt->flow, FLOW_FORWARD);
	int reason;

	choice->own_port = pkt->flow.sport;
	reason = choose(memory, service, pkt, choice);
	if (reason)
		return reason;
	if (address_equal(&choice->peer, &pkt->flow.source))
		choice->flags = FLOW_HAIRPIN;
	/* A retransmitted SYN keeps its port. */
	if (known && known->peer_port == choice->peer_port && address_equal(&known->peer, &choice->peer))
		choice->own_port = known->own_port;
	reason = claim(memory, &pkt->flow, choice);
	if (reason)
		return reason;
	choice->first = service->set;
	remember(memory, &pkt->flow, FLOW_FORWARD, choice);
	return REASON_NONE;
}

/* Whether the stored backend may still be used. Established TCP connections continue after the backend was removed from
 * the service (it may be terminating gracefully); protocols without connections get another backend. */
INLINE bool still_good(const struct service *service, struct flow *known, const struct packet *pkt)
{
	if (pkt->opens)
		return false;
	if (pkt->flow.proto == IPPROTO_UDP && idle_ticks(known) > UDP_IDLE_TICKS)
		return false;
	if (known->first == service->set || pkt->flow.proto != IPPROTO_UDP)
		return true;
	if (!is_member(service->set, &known->peer, known->peer_port))
		return false;
	known->first = service->set;
	return true;
}

/* The table may have evicted only the reverse entry: it is restored. */
INLINE void keep_way_back(void *memory, const struct packet *pkt, const struct flow *known)
{
	struct flow back = {
		.peer = pkt->flow.target,
		.peer_port = pkt->flow.dport,
		.own_port = pkt->flow.sport,
		.flags = known->flags & FLOW_HAIRPIN,
	};
	struct tuple after, key;

	translated(&after, &pkt->flow, known);
	reversed(&key, &after);
	if (!recall(memory, &key, FLOW_REVERSE))
		remember(memory, &key, FLOW_REVERSE, &back);
}

INLINE int to_backend(struct __sk_buff *skb, void *memory, const struct service *service, struct packet *pkt)
{
	struct flow *known, choice = {};
	struct tuple after;
	int reason;

	known = recall(memory, &pkt->flow, FLOW_FORWARD);
	/* A direct flow is recorded only when it opens: later packets need translation only if that one did. */
	if (!known && (service->flags & SERVICE_DIRECT) && pkt->flow.proto == IPPROTO_TCP && !pkt->opens)
		return REASON_NONE;
	if (known && still_good(service, known, pkt)) {
		if (touch(known))
			keep_way_back(memory, pkt, known);
		if (pkt->closes)
			known->flags |= FLOW_CLOSED;
		translated(&after, &pkt->flow, known);
	} else {
		reason = open_flow(memory, service, pkt, &choice);
		if (reason)
			return reason;
		translated(&after, &pkt->flow, &choice);
	}
	return rewrite(skb, pkt, &after);
}

/* Translates a packet for a service, or for a backend directly, to its backend. */
STAGE int service_forward(struct __sk_buff *skb, struct packet *pkt NONNULL, __u32 slot, __u32 at)
{
	const struct service *service = service_of(pkt, at);
	void *memory;

	if (!service)
		return REASON_NONE;
	memory = memory_of(slot);
	return memory ? to_backend(skb, memory, service, pkt) : REASON_NO_MEMORY;
}

/* Rewrites the embedded packet's target and ports. In IPv4 its header checksum compensates for the address, so only the
 * ports have to be updated in the message's checksum. */
INLINE int rewrite_embedded(struct __sk_buff *skb, const struct packet *pkt, const struct tuple *before,
			    const struct tuple *after)
{
	__u32 ports[2] = { ((__u32)before->dport << 16) | before->sport, ((__u32)after->dport << 16) | after->sport };
	__u32 inner = pkt->l4 + 8, sum = pkt->l4 + 2;
	bool ip4 = pkt->family == 4;
	__s64 change;

	if (ip4) {
		if (bpf_l3_csum_replace(skb, inner + offsetof(struct iphdr, check), before->target.word[3],
					after->target.word[3], 4))
			return REASON_REWRITE;
		if (bpf_skb_store_bytes(skb, inner + offsetof(struct iphdr, daddr), &after->target.word[3], 4, 0))
			return REASON_REWRITE;
	} else {
		change = bpf_csum_diff((__be32 *)&before->target, 16, (__be32 *)&after->target, 16, 0);
		if (bpf_l4_csum_replace(skb, sum, 0, change, 0))
			return REASON_REWRITE;
		if (bpf_skb_store_bytes(skb, inner + offsetof(struct ipv6hdr, daddr), &after->target, 16, 0))
			return REASON_REWRITE;
	}
	if (bpf_l4_csum_replace(skb, sum, ports[0], ports[1], 4))
		return REASON_REWRITE;
	inner += ip4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	return bpf_skb_store_bytes(skb, inner, &ports[1], 4, 0) ? REASON_REWRITE : REASON_NONE;
}

/* An error about a translated packet must refer to the service, and come from it if the backend sent it. */
STAGE int error_reverse(struct __sk_buff *skb, struct packet *pkt NONNULL, __u32 slot)
{
	void *memory = memory_of(slot);
	struct tuple before, after, key;
	struct flow *known;
	int reason;

	if (!memory || !embedded_flow(skb, pkt, &before))
		return REASON_NONE;
	reversed(&key, &before);
	known = recall(memory, &key, FLOW_REVERSE);
	if (!known || known->flags & FLOW_HAIRPIN)
		return REASON_NONE;
	after = before;
	after.target = known->peer;
	after.dport = known->peer_port;
	after.sport = known->own_port;
	reason = rewrite_embedded(skb, pkt, &before, &after);
	if (reason || !address_equal(&pkt->flow.source, &before.target))
		return reason;
	key = pkt->flow;
	key.source = after.target;
	return rewrite(skb, pkt, &key);
}

/* Translates a packet from a backend back to the service's address. */
STAGE int service_reverse(struct __sk_buff *skb, struct packet *pkt NONNULL, __u32 slot)
{
	void *memory = memory_of(slot);
	struct tuple after;
	struct flow *known;

	if (!memory)
		return REASON_NO_MEMORY;
	if (pkt->icmp_error)
		return error_reverse(skb, pkt, slot);
	known = recall(memory, &pkt->flow, FLOW_REVERSE);
	if (!known)
		return REASON_NONE;
	touch(known);
	if (pkt->closes)
		known->flags |= FLOW_CLOSED;
	after = pkt->flow;
	if (known->flags & FLOW_HAIRPIN)
		after.target = pkt->flow.source;
	after.source = known->peer;
	after.sport = known->peer_port;
	after.dport = known->own_port;
	return rewrite(skb, pkt, &after);
}
