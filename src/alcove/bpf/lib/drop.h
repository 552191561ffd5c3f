// SPDX-License-Identifier: GPL-2.0-only
/* Every drop has a reason and is counted: in total, and by flow in a bounded table of its network, so that a network's
 * drops can be explained whatever others send. */
#pragma once

#include "config.h"
#include "network.h"
#include "packet.h"

struct drop_count {
	__u64 packets;
	__u64 bytes;
};
_Static_assert(sizeof(struct drop_count) == 16, "drop_count");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct drop_count);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} drops SEC(".maps");
_Static_assert(REASON_COUNT <= 64, "drops has a slot for every reason");

/* What was dropped of one flow for one reason. The key is the flow, without the sender's port, and the reason as its
 * kind; replies that policy refused belong to the flow that they reply to. */
struct dropped {
	__u64 packets;
	__u64 bytes;
	__u64 policy;		/* the profile that last refused a packet; 0 if it was not a policy */
	__u32 start;		/* tick of the first */
	__u32 tick;		/* of the last */
};
_Static_assert(sizeof(struct dropped) == 32, "dropped");

struct drop_table {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 512);
	__uint(key_size, sizeof(struct tuple));
	__uint(value_size, sizeof(struct dropped));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MEMORIES);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct drop_table);
} drop_tables SEC(".maps");

/* How many packets of each network were noted in its table, so that a reader knows whose table has changed. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MEMORIES);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} network_drops SEC(".maps");

/* Drops that nobody misses: consumed packets, and what every IPv6 host tells its routers. */
INLINE bool is_routine(const struct packet *pkt, __u32 reason)
{
	return reason == REASON_NEIGHBOR_IGNORED || reason == REASON_NOTICE ||
	       (pkt->flow.proto == IPPROTO_ICMPV6 && target_is_multicast(pkt));
}

INLINE void note_drop(struct __sk_buff *skb, const struct packet *pkt, __u32 reason)
{
	const __u32 *slot = slot_of(pkt->vni);
	struct dropped *known, first = { .packets = 1, .bytes = skb->len, .policy = pkt->policy };
	struct tuple key = pkt->flow;
	__u64 *count;
	void *table;

	table = slot ? bpf_map_lookup_elem(&drop_tables, slot) : NULL;
	if (!table)
		return;
	count = bpf_map_lookup_elem(&network_drops, slot);
	if (count)
		__sync_fetch_and_add(count, 1);
	if (pkt->reply) {
		key.source = pkt->flow.target;
		key.target = pkt->flow.source;
		key.dport = pkt->flow.sport;
	}
	key.sport = 0;
	if (key.proto == IPPROTO_ICMP || key.proto == IPPROTO_ICMPV6)
		key.dport = 0;
	key.kind = reason;
	known = bpf_map_lookup_elem(table, &key);
	if (known) {
		__sync_fetch_and_add(&known->packets, 1);
		__sync_fetch_and_add(&known->bytes, skb->len);
		known->policy = pkt->policy;
		known->tick = now_tick();
		return;
	}
	first.start = first.tick = now_tick();
	bpf_map_update_elem(table, &key, &first, BPF_ANY);
}

STAGE int drop(struct __sk_buff *skb, const struct packet *pkt NONNULL, __u32 reason)
{
	struct drop_count *count = bpf_map_lookup_elem(&drops, &reason);

	if (!count)
		return TC_ACT_SHOT;
	count->packets++;
	count->bytes += skb->len;
	if (!is_routine(pkt, reason))
		note_drop(skb, pkt, reason);
	return TC_ACT_SHOT;
}
