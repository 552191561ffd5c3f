// SPDX-License-Identifier: GPL-2.0-only
/* A port's rate limit: a virtual clock that each packet advances by its transmission time at the rate. */
#pragma once

#include "port.h"

#define NS_PER_S 1000000000ULL

struct bucket {
	__u64 busy_until_ns;
};
_Static_assert(sizeof(struct bucket) == 8, "bucket");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct bucket);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} buckets SEC(".maps");

INLINE bool rate_exceeded(struct __sk_buff *skb, const struct port *port)
{
	__u32 ifindex = skb->ifindex;
	__u64 now, busy;
	struct bucket *bucket;

	if (!port->rate)
		return false;
	bucket = bpf_map_lookup_elem(&buckets, &ifindex);
	if (!bucket)
		return false;
	now = bpf_ktime_get_ns();
	busy = *(volatile __u64 *)&bucket->busy_until_ns;
	/* Unused time does not accumulate; the loser of a race sees the winner's clock. */
	if (busy < now)
		__sync_val_compare_and_swap(&bucket->busy_until_ns, busy, now);
	if (busy > now && busy - now > port->burst_ns)
		return true;
	__sync_fetch_and_add(&bucket->busy_until_ns, skb->len * NS_PER_S / port->rate);
	return false;
}
