// SPDX-License-Identifier: GPL-2.0-only
/* Reasons of drops. Mirrored by dataplane/drops.py; append only. */
#pragma once

enum reason {
	REASON_NONE,
	REASON_UNKNOWN_PORT,	/* a device without a port entry */
	REASON_NOT_IP,		/* neither IP nor ARP, or VLAN tagged */
	REASON_TRUNCATED,	/* headers are incomplete */
	REASON_MALFORMED,	/* headers are inconsistent */
	REASON_BAD_LENGTH,
	REASON_IP_OPTIONS,	/* IPv4 options, IPv6 routing or too many extension headers */
	REASON_SPOOFED_MAC,
	REASON_SPOOFED_ADDRESS,
	REASON_SPOOFED_NEIGHBOR, /* ARP or ND for another endpoint's address */
	REASON_NEIGHBOR_IGNORED, /* ARP or ND that needs no answer */
	REASON_MULTICAST,
	REASON_MARTIAN,
	REASON_BAD_ICMP,	/* types that only routers may send */
	REASON_TINY_FRAGMENT,
	REASON_FRAGMENT_UNKNOWN, /* a later fragment whose first was not seen */
	REASON_RATE_LIMIT,
	REASON_POLICY_EGRESS,
	REASON_POLICY_INGRESS,
	REASON_NO_BACKEND,
	REASON_NO_SOURCE_PORT,	/* every tried source port of a service flow was in use */
	REASON_NO_ENDPOINT,	/* an address of the network without an endpoint */
	REASON_NO_ROUTE,	/* not in a subnet, and no egress */
	REASON_NO_NODE,		/* the endpoint's node no longer exists */
	REASON_UNDERLAY,	/* the nodes' own addresses */
	REASON_FOREIGN_TUNNEL,	/* a tunnel packet from an unknown node */
	REASON_RELAY_LIMIT,
	REASON_ENCAPSULATION,	/* the kernel could not add or remove the tunnel header */
	REASON_NO_MEMORY,	/* the network has no memory for its flows */
	REASON_REWRITE,		/* the kernel could not change the packet */
	REASON_NOTICE,		/* a bouncer's notice, consumed */
	REASON_COUNT,
};
