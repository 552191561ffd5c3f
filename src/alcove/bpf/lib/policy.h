// SPDX-License-Identifier: GPL-2.0-only
/* Policy: which connections may be opened. Replies belong to their connection.
 *
 * A port has a profile for each direction, 0: everything may pass. A profile is a trie of peers, each of a class; a
 * class is a trie of ports. Profiles and classes are named by their content and are immutable: a new policy is
 * written completely, then the port's entry is switched. A known connection is evaluated again when the profiles it
 * passed with are no longer the ports' current ones.
 *
 * The opener of a connection is recorded even without a policy, because a policy that is added later has to distinguish
 * replies from openings. If the record is lost (a full table evicts its oldest entries), an established TCP connection
 * passes if either end may open it. This opens nothing new: that takes a SYN, which is evaluated on its own. */
#pragma once

#include "embedded.h"
#include "flow.h"
#include "opening.h"

struct peer_key {
	__u32 prefix_bits;	/* of profile and address together */
	__u32 profile[2];
	struct address address;
};
_Static_assert(sizeof(struct peer_key) == 28, "peer_key");

struct rule_key {
	__u32 prefix_bits;	/* of class, protocol and port together */
	__u32 class[2];
	__u8 proto;
	__u8 pad;
	__be16 port;
};
_Static_assert(sizeof(struct rule_key) == 16, "rule_key");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1048576);
	__type(key, struct peer_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} policy_peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct rule_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} policy_rules SEC(".maps");

#define TRACK_IDLE_TICKS 170	/* for protocols without an end of connection: three minutes */

/* The profiles at both ends of a packet; zeros for an end that is not on this node. */
struct profiles {
	__u64 source_in;
	__u64 source_out;
	__u64 target_in;
	__u64 target_out;
	bool exempt;		/* sent by the gateway itself: no policy may refuse probes */
};

STAGE int profile_allows(__u64 profile, const struct address *peer NONNULL, __be16 port, __u8 proto)
{
	struct peer_key key = { .prefix_bits = 192, .address = *peer };
	struct rule_key rule = { .prefix_bits = 96, .proto = proto, .port = port };
	__u64 *class;

	if (!profile)
		return 1;
	key.profile[0] = profile;
	key.profile[1] = profile >> 32;
	class = bpf_map_lookup_elem(&policy_peers, &key);
	if (!class || !*class)
		return 0;
	rule.class[0] = *class;
	rule.class[1] = *class >> 32;
	return bpf_map_lookup_elem(&policy_rules, &rule) ? 1 : 0;
}

/* Whether the flow's opener may open it. `forward`: the packet is sent by the opener. */
INLINE int judge(struct packet *pkt, bool forward, __u64 out, __u64 in)
{
	const struct address *opener = forward ? &pkt->flow.source : &pkt->flow.target;
	const struct address *other = forward ? &pkt->flow.target : &pkt->flow.source;
	__be16 port = forward ? pkt->flow.dport : pkt->flow.sport;

	if (!profile_allows(out, other, port, pkt->flow.proto)) {
		pkt->policy = out;
		pkt->reply = !forward;
		return REASON_POLICY_EGRESS;
	}
	if (!profile_allows(in, opener, port, pkt->flow.proto)) {
		pkt->policy = in;
		pkt->reply = !forward;
		return REASON_POLICY_INGRESS;
	}
	return REASON_NONE;
}

/* One key for both directions: the lower end first. Returns true if `flow` is sent by the key's target. */
INLINE bool track_key(struct tuple *key, const struct tuple *flow)
{
	bool swap = address_below(&flow->target, &flow->source) ||
		    (address_equal(&flow->target, &flow->source) && flow->dport < flow->sport);

	*key = *flow;
	if (swap) {
		key->source = flow->target;
		key->target = flow->source;
		key->sport = flow->dport;
		key->dport = flow->sport;
	}
	return swap;
}

INLINE bool is_over(const struct track *known, const struct packet *pkt)
{
	return pkt->flow.proto != IPPROTO_TCP && now_tick() - known->tick > TRACK_IDLE_TICKS;
}

/* Counts a packet of the connection. `forward`: it is sent by the opener. */
INLINE void count_packet(struct __sk_buff *skb, const struct packet *pkt, struct track *known, bool forward)
{
	__u32 packets = skb->gso_segs ?: 1, tick = now_tick();
	__u64 bytes = skb->len - pkt->l3;

	if (known->tick != tick)
		known->tick = tick;
	if (!config.count_flows)
		return;
	/* The same ports again: another connection. */
	if (pkt->opens && known->tcp_flags & (TCP_FIN | TCP_RST)) {
		known->bytes_out = known->bytes_back = 0;
		known->packets_out = known->packets_back = 0;
		known->tcp_flags = 0;
		known->start = tick;
	}
	if (forward) {
		known->bytes_out += bytes;
		known->packets_out += packets;
	} else {
		known->bytes_back += bytes;
		known->packets_back += packets;
	}
	if ((known->tcp_flags | pkt->tcp_flags) != known->tcp_flags)
		known->tcp_flags |= pkt->tcp_flags;
}

INLINE int judge_known(void *memory, struct packet *pkt, const struct profiles *ends, struct tuple *key,
		       struct track *known, bool forward)
{
	__u64 out = forward ? ends->source_out : ends->target_out;
	__u64 in = forward ? ends->target_in : ends->source_in;
	int reason;

	touch((struct flow *)known);
	if ((known->flags & FLOW_EXEMPT) || (known->out == out && known->in == in))
		return REASON_NONE;
	reason = judge(pkt, forward, out, in);
	if (reason) {
		/* The opener stays recorded; otherwise the next packet would belong to an unknown connection. */
		if (known->flags & FLOW_GUESSED)
			bpf_map_delete_elem(memory, key);
		return reason;
	}
	known->out = out;
	known->in = in;
	return REASON_NONE;
}

/* ICMP types tell whether a message is a reply. */
INLINE bool is_answer(const struct packet *pkt)
{
	return (pkt->flow.proto == IPPROTO_ICMP || pkt->flow.proto == IPPROTO_ICMPV6) && !pkt->opens &&
	       !pkt->icmp_error;
}

/* Records the connection with its first packet. `forward`: it is sent by the opener. */
INLINE void note(struct __sk_buff *skb, const struct packet *pkt, __u32 slot, void *memory, struct tuple *key,
		 bool forward, struct track *track)
{
	track->start = now_tick();
	count_packet(skb, pkt, track, forward);
	remember(memory, key, FLOW_TRACK, (struct flow *)track);
	note_opening(skb, slot, key, track);
}

INLINE int judge_new(struct __sk_buff *skb, __u32 slot, void *memory, struct packet *pkt, const struct profiles *ends,
		     struct tuple *key, bool swap)
{
	bool under_way = pkt->flow.proto == IPPROTO_TCP && !pkt->opens;
	struct track track = {
		.flags = (under_way ? FLOW_GUESSED : 0) | (swap ? FLOW_SWAPPED : 0),
		.out = ends->source_out,
		.in = ends->target_in,
	};
	int back, reason = REASON_NONE;
	__u64 refused_by;

	if (ends->exempt) {
		track.flags = FLOW_EXEMPT | (swap ? FLOW_SWAPPED : 0);
		note(skb, pkt, slot, memory, key, true, &track);
		return REASON_NONE;
	}
	if (!is_answer(pkt)) {
		reason = judge(pkt, true, ends->source_out, ends->target_in);
		if (!reason)
			note(skb, pkt, slot, memory, key, true, &track);
		if (!reason || !under_way)
			return reason;
	}
	refused_by = pkt->policy;
	back = judge(pkt, false, ends->target_out, ends->source_in);
	if (back && reason) {
		pkt->policy = refused_by;
		pkt->reply = false;
	}
	if (back)
		return reason ? reason : back;
	track.flags ^= FLOW_SWAPPED;
	track.out = ends->target_out;
	track.in = ends->source_in;
	note(skb, pkt, slot, memory, key, false, &track);
	return REASON_NONE;
}

/* TCP flags and ICMP types tell whether a packet opens a connection; for other protocols the first packet does. */
INLINE bool may_open(const struct packet *pkt)
{
	if (pkt->flow.proto == IPPROTO_UDP || pkt->flow.proto == IPPROTO_SCTP)
		return pkt->fragment != FRAGMENT_LATER;
	return pkt->opens;
}

/* Without a policy: record the opener, and count. */
STAGE int note_opener(struct __sk_buff *skb, const struct packet *pkt NONNULL, __u32 slot, __u32 flags)
{
	void *memory = memory_of(slot);
	struct track *known, track = {};
	struct tuple key;
	bool swap;

	if (!memory || !(config.count_flows || may_open(pkt)))
		return 0;
	swap = track_key(&key, &pkt->flow);
	/* Of TCP, every opening packet is recorded: an older connection may have had the opposite direction. */
	if (pkt->flow.proto != IPPROTO_TCP || !pkt->opens) {
		known = recall_track(memory, &key);
		if (known && !is_over(known, pkt)) {
			count_packet(skb, pkt, known, swap == !!(known->flags & FLOW_SWAPPED));
			return 0;
		}
	}
	if (!may_open(pkt))
		return 0;
	track.flags = flags | (swap ? FLOW_SWAPPED : 0);
	note(skb, pkt, slot, memory, &key, true, &track);
	return 0;
}

/* An error about a connection that policy allowed belongs to that connection. */
STAGE int is_related(struct __sk_buff *skb, const struct packet *pkt NONNULL, __u32 slot)
{
	void *memory = memory_of(slot);
	struct tuple flow, key;

	if (!memory || !embedded_flow(skb, pkt, &flow))
		return 0;
	if (!address_equal(&flow.source, &pkt->flow.target))
		return 0;
	track_key(&key, &flow);
	return recall_track(memory, &key) ? 1 : 0;
}

STAGE int policy(struct __sk_buff *skb, struct packet *pkt NONNULL, const struct profiles *ends NONNULL, __u32 slot)
{
	void *memory = memory_of(slot);
	struct track *known;
	struct tuple key;
	bool swap, forward;
	int reason;

	if (!memory)
		return REASON_NO_MEMORY;
	if (pkt->icmp_error && is_related(skb, pkt, slot))
		return REASON_NONE;
	swap = track_key(&key, &pkt->flow);
	known = recall_track(memory, &key);
	if (!known || is_over(known, pkt))
		return judge_new(skb, slot, memory, pkt, ends, &key, swap);
	forward = swap == !!(known->flags & FLOW_SWAPPED);
	/* A packet that opens a connection is not a reply, whatever its ports. */
	if (!forward && pkt->opens)
		return judge_new(skb, slot, memory, pkt, ends, &key, swap);
	reason = judge_known(memory, pkt, ends, &key, known, forward);
	if (!reason)
		count_packet(skb, pkt, known, forward);
	return reason;
}
