// SPDX-License-Identifier: GPL-2.0-only
/* The nodes of the underlay: tunnel packets are sent to and accepted from these only. */
#pragma once

#include "kernel.h"

struct node {
	__be32 next_hop;	/* the node itself, or the router to it */
};
_Static_assert(sizeof(struct node) == 4, "node");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __be32);
	__type(value, struct node);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nodes SEC(".maps");

INLINE const struct node *node_of(__be32 address)
{
	return bpf_map_lookup_elem(&nodes, &address);
}
