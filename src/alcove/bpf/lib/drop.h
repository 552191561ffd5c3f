// SPDX-License-Identifier: GPL-2.0-only
/* Every drop has a reason and is counted; samples are sent to a ring buffer. */
#pragma once

#include "packet.h"

struct drop_count {
	__u64 packets;
	__u64 bytes;
	__u64 sampled;		/* the time slice in which a sample was last sent */
};
_Static_assert(sizeof(struct drop_count) == 24, "drop_count");

struct drop_sample {
	struct tuple flow;
	__u64 policy;		/* the profile that refused the packet; 0 if it was not a policy */
	__u32 vni;
	__u32 ifindex;
	__u32 length;
	__u32 reason;
};
_Static_assert(sizeof(struct drop_sample) == 64, "drop_sample");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct drop_count);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} drops SEC(".maps");
_Static_assert(REASON_COUNT <= 64, "drops has a slot for every reason");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} samples SEC(".maps");

/* At most one sample per reason, CPU and 16 ms: a flood does not load the reader. */
#define SAMPLE_SHIFT 24

STAGE int drop(struct __sk_buff *skb, const struct packet *pkt NONNULL, __u32 reason)
{
	struct drop_count *count = bpf_map_lookup_elem(&drops, &reason);
	struct drop_sample *sample;
	__u64 slice;

	if (!count)
		return TC_ACT_SHOT;
	count->packets++;
	count->bytes += skb->len;
	slice = bpf_ktime_get_coarse_ns() >> SAMPLE_SHIFT;
	if (count->sampled == slice)
		return TC_ACT_SHOT;
	count->sampled = slice;
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (!sample)
		return TC_ACT_SHOT;
	sample->flow = pkt->flow;
	sample->policy = pkt->policy;
	sample->vni = pkt->vni;
	sample->ifindex = skb->ifindex;
	sample->length = skb->len;
	sample->reason = reason;
	bpf_ringbuf_submit(sample, 0);
	return TC_ACT_SHOT;
}
