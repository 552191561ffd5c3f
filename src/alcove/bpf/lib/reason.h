// SPDX-License-Identifier: GPL-2.0-only
/* Why a packet was dropped. Mirrored by dataplane/drops.py; append only. */
#pragma once

enum reason {
	REASON_NONE,
	REASON_UNKNOWN_PORT,	/* a device no port is known for */
	REASON_NOT_IP,		/* neither IP nor ARP, or VLAN tagged */
	REASON_TRUNCATED,	/* headers end before they should */
	REASON_MALFORMED,	/* headers contradict themselves */
	REASON_BAD_LENGTH,
	REASON_IP_OPTIONS,	/* IPv4 options, IPv6 routing or too many extension headers */
	REASON_SPOOFED_MAC,
	REASON_SPOOFED_ADDRESS,
	REASON_SPOOFED_NEIGHBOR, /* ARP or ND for another's address */
	REASON_NEIGHBOR_IGNORED, /* ARP or ND that wants no answer */
	REASON_MULTICAST,
	REASON_MARTIAN,
	REASON_BAD_ICMP,	/* types that only routers may send */
	REASON_TINY_FRAGMENT,
	REASON_FRAGMENT_UNKNOWN, /* a later fragment whose first was not seen */
	REASON_RATE_LIMIT,
	REASON_POLICY_EGRESS,
	REASON_POLICY_INGRESS,
	REASON_NO_BACKEND,
	REASON_NO_SOURCE_PORT,	/* every tried source port of a service flow was taken */
	REASON_NO_ENDPOINT,	/* an address of the network that nobody has */
	REASON_NO_ROUTE,	/* no subnet, and no way out */
	REASON_NO_NODE,		/* the endpoint's node is gone */
	REASON_UNDERLAY,	/* the nodes' own addresses */
	REASON_FOREIGN_TUNNEL,	/* a tunnel packet that no known node sent */
	REASON_RELAY_LIMIT,
	REASON_ENCAPSULATION,	/* the kernel refused to make or take room for the tunnel header */
	REASON_NO_MEMORY,	/* the network has no memory for its flows */
	REASON_REWRITE,		/* the kernel refused to change the packet */
	REASON_NOTICE,		/* a bouncer's notice, taken in */
	REASON_COUNT,
};
