// SPDX-License-Identifier: GPL-2.0-only
/* A network's memory: all state created by its packets, in a bounded table per network, so that a flood in one network
 * affects only that network. Several kinds of entries share it, distinguished in the key. */
#pragma once

#include "config.h"
#include "network.h"
#include "packet.h"

enum flow_kind {
	FLOW_NONE,
	FLOW_FORWARD,		/* client to service: becomes client to backend */
	FLOW_REVERSE,		/* backend to client: becomes service to client */
	FLOW_TRACK,		/* the opener of a connection, and the policy it passed; one key for both directions */
	FLOW_FRAGMENT,		/* the ports of a fragmented packet */
	FLOW_AFFINITY,		/* a client's backend of a service (session affinity) */
	FLOW_PATH,		/* the node that has an endpoint */
};

#define FLOW_SWAPPED 0x1	/* TRACK: the opener is the key's target */
#define FLOW_EXEMPT 0x2		/* TRACK: opened by the gateway; no policy applies */
#define FLOW_HAIRPIN 0x4	/* FORWARD, REVERSE: the client is its own backend */
#define FLOW_CLOSED 0x8		/* FORWARD, REVERSE: the entry may be replaced */
#define FLOW_GUESSED 0x10	/* TRACK: the opening packet was not seen; the opener may be the other end */

struct flow {
	struct address peer;	/* FORWARD, AFFINITY: backend; REVERSE: service */
	__be16 peer_port;
	__be16 own_port;	/* the client's port: translated (FORWARD) or original (REVERSE) */
	__u32 tick;		/* time of last use */
	__u32 flags;
	__be32 node;		/* PATH */
	__u64 first;		/* FORWARD: the set of backends */
	__u64 second;		/* FRAGMENT: the ports */
};
_Static_assert(sizeof(struct flow) == 48, "flow");

/* An entry of the kind TRACK: a flow without a peer. It is in its place that the connection's counters are, so that
 * they need no memory and no lookup of their own. Each counter has one writer, unless a pod sends packets of one
 * connection on several CPUs at once: then some may be missed. */
struct track {
	__u64 bytes_out;	/* of IP packets that the opener sent */
	__u64 bytes_back;
	__u32 packets_out;
	__u32 tick;
	__u8 flags;
	__u8 tcp_flags;		/* all that were seen, in both directions */
	__u16 start;		/* the lower half of the tick in which it was opened */
	__u32 packets_back;
	__u64 out;		/* the opener's egress profile */
	__u64 in;		/* the other end's ingress profile */
};
_Static_assert(sizeof(struct track) == sizeof(struct flow), "track");
_Static_assert(offsetof(struct track, tick) == offsetof(struct flow, tick), "track");
_Static_assert(offsetof(struct track, flags) == offsetof(struct flow, flags), "track");

struct memory {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__uint(key_size, sizeof(struct tuple));
	__uint(value_size, sizeof(struct flow));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MEMORIES);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct memory);
} memories SEC(".maps");

INLINE void *memory_of(__u32 slot)
{
	return bpf_map_lookup_elem(&memories, &slot);
}

INLINE struct flow *recall(void *memory, struct tuple *key, __u8 kind)
{
	key->kind = kind;
	return bpf_map_lookup_elem(memory, key);
}

INLINE void remember(void *memory, struct tuple *key, __u8 kind, struct flow *flow)
{
	key->kind = kind;
	flow->tick = now_tick();
	bpf_map_update_elem(memory, key, flow, BPF_ANY);
}

INLINE struct track *recall_track(void *memory, struct tuple *key)
{
	return (struct track *)recall(memory, key, FLOW_TRACK);
}

/* Time of last use of an entry, written at most once per tick, so that the cache line stays shared between CPUs. */
INLINE bool touch(struct flow *flow)
{
	__u32 tick = now_tick();

	if (flow->tick == tick)
		return false;
	flow->tick = tick;
	return true;
}

INLINE __u32 idle_ticks(const struct flow *flow)
{
	return now_tick() - flow->tick;
}

INLINE __u32 mix(__u32 hash, __u32 word)
{
	hash = (hash ^ word) * 0x9e3779b1;
	return hash ^ (hash >> 15);
}

/* The hash is the same for all packets of a connection. */
INLINE __u32 tuple_hash(const struct tuple *flow)
{
	__u32 hash = mix(flow->proto, flow->source.word[3]);

	hash = mix(hash, flow->source.word[2] ^ flow->source.word[1]);
	hash = mix(hash, flow->target.word[3]);
	hash = mix(hash, flow->target.word[2] ^ flow->target.word[1]);
	hash = mix(hash, ((__u32)flow->sport << 16) | flow->dport);
	/* Every bit of the ports must affect every bit of the hash. */
	hash ^= hash >> 16;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ (hash >> 16);
}
