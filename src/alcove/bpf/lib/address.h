// SPDX-License-Identifier: GPL-2.0-only
/* One layout for both families: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d. */
#pragma once

#include "kernel.h"

struct address {
	__u32 word[4];
};

#define MAPPED bpf_htonl(0xffff)

INLINE void address_of_ip4(struct address *address, __be32 ip)
{
	address->word[0] = 0;
	address->word[1] = 0;
	address->word[2] = MAPPED;
	address->word[3] = ip;
}

INLINE void address_of_ip6(struct address *address, const struct in6_addr *ip)
{
	__builtin_memcpy(address, ip, sizeof(*address));
}

INLINE bool address_equal(const struct address *a, const struct address *b)
{
	return a->word[3] == b->word[3] && a->word[2] == b->word[2] && a->word[1] == b->word[1] &&
	       a->word[0] == b->word[0];
}

INLINE bool address_is_ip4(const struct address *a)
{
	return a->word[2] == MAPPED && !a->word[0] && !a->word[1];
}

/* Comparison in network order; gives both directions of a connection one key. */
INLINE bool address_below(const struct address *a, const struct address *b)
{
	if (a->word[3] != b->word[3])
		return a->word[3] < b->word[3];
	if (a->word[2] != b->word[2])
		return a->word[2] < b->word[2];
	if (a->word[1] != b->word[1])
		return a->word[1] < b->word[1];
	return a->word[0] < b->word[0];
}

/* The source address that a pod sees when it is its own backend: 169.254.254.254, fd00:a1c0:e::1. */
INLINE void address_of_hairpin(struct address *address, bool ip4)
{
	if (ip4) {
		address_of_ip4(address, bpf_htonl(0xa9fefefe));
		return;
	}
	address->word[0] = bpf_htonl(0xfd00a1c0);
	address->word[1] = bpf_htonl(0x000e0000);
	address->word[2] = 0;
	address->word[3] = bpf_htonl(1);
}

INLINE bool address_is_hairpin(const struct address *a)
{
	if (a->word[2] == MAPPED)
		return a->word[3] == bpf_htonl(0xa9fefefe);
	return a->word[0] == bpf_htonl(0xfd00a1c0) && a->word[1] == bpf_htonl(0x000e0000) &&
	       !a->word[2] && a->word[3] == bpf_htonl(1);
}
