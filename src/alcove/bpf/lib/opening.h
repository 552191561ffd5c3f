// SPDX-License-Identifier: GPL-2.0-only
/* Connections in the order in which they were opened, in a ring per network: whoever follows a network reads what is new,
 * and knows from the numbers how many have been overwritten before they were read. */
#pragma once

#include "config.h"
#include "flow.h"
#include "network.h"

#define OPENINGS 8192

struct opening {
	struct tuple key;	/* of the connection's entry, with that entry's flags as the kind */
	__u32 tick;
	__u32 number;		/* the lower half of 1 + how many the network had before; 0 while it is being written */
};
_Static_assert(sizeof(struct opening) == 48, "opening");

struct opening_ring {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, OPENINGS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct opening));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MEMORIES);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct opening_ring);
} opening_rings SEC(".maps");

/* How many connections each network has opened on this node. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MEMORIES);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} opening_counts SEC(".maps");

/* Only a dry run's packet has a mark; see meter.h. */
INLINE void note_opening(const struct __sk_buff *skb, __u32 slot, const struct tuple *key, const struct track *track)
{
	struct opening *place;
	__u64 *count, number;
	__u32 index;
	void *ring;

	if (!config.count_flows || skb->mark)
		return;
	ring = bpf_map_lookup_elem(&opening_rings, &slot);
	count = bpf_map_lookup_elem(&opening_counts, &slot);
	if (!ring || !count)
		return;
	number = __sync_fetch_and_add(count, 1);
	index = number & (OPENINGS - 1);
	place = bpf_map_lookup_elem(ring, &index);
	if (!place)
		return;
	/* A reader must not take half of it for a whole one. */
	__sync_fetch_and_and(&place->number, 0);
	place->key = *key;
	place->key.kind = track->flags;
	place->tick = now_tick();
	__sync_lock_test_and_set(&place->number, (__u32)number + 1);
}
