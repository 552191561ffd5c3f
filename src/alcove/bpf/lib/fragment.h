// SPDX-License-Identifier: GPL-2.0-only
/* Fragments after the first have no ports: those of the first are stored for them. */
#pragma once

#include "flow.h"

INLINE void fragment_key(struct tuple *key, const struct packet *pkt)
{
	*key = pkt->flow;
	key->sport = pkt->fragment_id & 0xffff;
	key->dport = pkt->fragment_id >> 16;
}

STAGE int fragment_ports(struct packet *pkt NONNULL, __u32 slot)
{
	void *memory = memory_of(slot);
	struct flow first = {};
	struct tuple key;
	struct flow *known;

	if (!memory)
		return REASON_NO_MEMORY;
	fragment_key(&key, pkt);
	if (pkt->fragment == FRAGMENT_FIRST) {
		first.second = ((__u32)pkt->flow.sport << 16) | pkt->flow.dport;
		remember(memory, &key, FLOW_FRAGMENT, &first);
		return REASON_NONE;
	}
	known = recall(memory, &key, FLOW_FRAGMENT);
	if (!known)
		return REASON_FRAGMENT_UNKNOWN;
	pkt->flow.sport = known->second >> 16;
	pkt->flow.dport = known->second & 0xffff;
	return REASON_NONE;
}
