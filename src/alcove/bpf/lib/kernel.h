// SPDX-License-Identifier: GPL-2.0-only
/* Kernel definitions that the programs use, and constants that older headers lack. */
#pragma once

#include <linux/bpf.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#ifndef AF_INET
#define AF_INET 2
#define AF_INET6 10
#endif
#define ARPHRD_ETHER 1
#define ARPOP_REQUEST 1
#define ARPOP_REPLY 2

/* <linux/icmp.h> and <linux/if_arp.h> include the C library, which does not compile for BPF. */
#define ICMP_ECHOREPLY 0
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMP_TIMESTAMP 13
#define ICMP_TIMESTAMPREPLY 14

struct icmphdr {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 id;
	__be16 sequence;
};

#define ROOM_DECAP_L3_IP4 (1ULL << 7)
#define ROOM_DECAP_L3_IP6 (1ULL << 8)

/* Continues with other programs at the device (such as another instance's), and then the host. It acts as
 * TC_ACT_UNSPEC, like every unknown return value in cls_bpf, but is not negative: those are drop reasons. */
#define NOT_OURS TC_ACT_PIPE

#define INLINE static __always_inline
/* A function that the verifier checks once, on its own, instead of once for every path that leads to it. */
#define STAGE __attribute__((noinline))
#define NONNULL __attribute__((btf_decl_tag("arg:nonnull")))

