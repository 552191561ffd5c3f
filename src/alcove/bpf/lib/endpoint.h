// SPDX-License-Identifier: GPL-2.0-only
/* Endpoints: the location of a network's addresses. A node knows its own, a bouncer its subnet's. */
#pragma once

#include "packet.h"

#define ENDPOINT_LOCAL 0x1
#define ENDPOINT_ANYCAST 0x2	/* a gateway's address: the same on every node */
#define ENDPOINT_SERVICES 0x4	/* its network has services: replies may need translation */
#define ENDPOINT_GATEWAY 0x8	/* a gateway's address on this node, of either kind */

struct endpoint_key {
	__u32 vni;
	struct address address;
};
_Static_assert(sizeof(struct endpoint_key) == 20, "endpoint_key");

struct endpoint {
	__be32 node;		/* its node, if not local */
	__u32 ifindex;		/* its veth, if local */
	__u8 mac[6];
	__u16 flags;
	__u32 memory;
	__u32 pad;
	__u64 policy_in;
	__u64 policy_out;
};
_Static_assert(sizeof(struct endpoint) == 40, "endpoint");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct endpoint_key);
	__type(value, struct endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} endpoints SEC(".maps");

INLINE const struct endpoint *endpoint_of(__u32 vni, const struct address *address)
{
	struct endpoint_key key = { .vni = vni, .address = *address };

	return bpf_map_lookup_elem(&endpoints, &key);
}
