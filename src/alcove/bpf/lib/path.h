// SPDX-License-Identifier: GPL-2.0-only
/* Counters of the paths that packets took. */
#pragma once

#include "kernel.h"

enum path_taken {
	PATH_LOCAL,
	PATH_DIRECT,		/* to a node that is known to have the endpoint */
	PATH_LEARNED,		/* to a node learned from a bouncer or divider */
	PATH_BOUNCER,
	PATH_DIVIDER,
	PATH_RELAYED,		/* forwarded here as bouncer or divider, for another node */
	PATH_FALLBACK,		/* through the VXLAN device */
	PATH_GATEWAY,
	PATH_FROM_TUNNEL,
	PATH_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} paths SEC(".maps");
_Static_assert(PATH_COUNT <= 16, "paths has a slot for every path");

INLINE void count_path(__u32 path)
{
	__u64 *count = bpf_map_lookup_elem(&paths, &path);

	if (count)
		(*count)++;
}
