// SPDX-License-Identifier: GPL-2.0-only
/* Routes: the nodes to send to for an unknown endpoint, and external addresses. */
#pragma once

#include "packet.h"

enum route_kind {
	ROUTE_NONE,
	ROUTE_SUBNET,		/* its bouncers know every endpoint */
	ROUTE_VPC,		/* its dividers know every subnet */
	ROUTE_WORLD,		/* external: through the gateway of this node */
	ROUTE_SERVICE,		/* service addresses: there are no endpoints in this range */
};

#define ROUTE_SELF 0x1		/* this node is one of the route's nodes */
#define ROUTE_NODES 8

struct route_key {
	__u32 prefix_bits;	/* of vni and address together */
	__u32 vni;
	struct address address;
};
_Static_assert(sizeof(struct route_key) == 24, "route_key");

struct route {
	__u8 kind;
	__u8 count;
	__u8 flags;
	__u8 pad;
	__u32 ifindex;		/* of the gateway's veth */
	__u8 mac[6];
	__u16 pad2;
	__be32 nodes[ROUTE_NODES];
};
_Static_assert(sizeof(struct route) == 48, "route");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct route_key);
	__type(value, struct route);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} routes SEC(".maps");

/* Prefixes that no network may reach, regardless of its routes: the underlay, link-local metadata. */
struct forbidden_key {
	__u32 prefix_bits;
	struct address address;
};
_Static_assert(sizeof(struct forbidden_key) == 20, "forbidden_key");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct forbidden_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} forbidden SEC(".maps");

INLINE const struct route *route_of(__u32 vni, const struct address *address)
{
	struct route_key key = { .prefix_bits = 160, .vni = vni, .address = *address };

	return bpf_map_lookup_elem(&routes, &key);
}

/* Always the same node of a route for the same address, so that packets stay in order. */
INLINE __be32 route_node(const struct route *route, const struct address *address)
{
	__u32 mixed = address->word[3] ^ (address->word[3] >> 16);
	__u32 index = route->count ? (mixed ^ (mixed >> 8)) % route->count : 0;

	return route->nodes[index & (ROUTE_NODES - 1)];
}

INLINE bool is_forbidden(const struct address *address)
{
	struct forbidden_key key = { .prefix_bits = 128, .address = *address };

	return bpf_map_lookup_elem(&forbidden, &key);
}
