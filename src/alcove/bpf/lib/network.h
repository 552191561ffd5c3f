// SPDX-License-Identifier: GPL-2.0-only
/* The networks that are present on this node, and the slots of their tables. */
#pragma once

#include "kernel.h"

#define MEMORIES 4096

struct network_key {
	__u32 vni;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MEMORIES);
	__type(key, struct network_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} networks SEC(".maps");

INLINE const __u32 *slot_of(__u32 vni)
{
	struct network_key key = { .vni = vni };

	return bpf_map_lookup_elem(&networks, &key);
}
