// SPDX-License-Identifier: GPL-2.0-only
/* SCTP's checksum is a CRC32c over the whole packet. It is linear, so a changed port changes it by the CRC of that
 * change, shifted over the bytes that follow: they need not be read. */
#pragma once

#include "packet.h"

#define CRC32C_POLY 0x82f63b78

/* a * b modulo the polynomial, bits reversed as in the CRC. */
STAGE __u32 crc_multiply(__u32 a, __u32 b)
{
	__u32 product = 0;

	for (int i = 0; i < 32; i++) {
		__u32 odd = -(b & 1), set = -(a >> 31);

		/* Masks instead of branches: the verifier follows every branch. */
		asm volatile("" : "+r"(odd), "+r"(set));
		product ^= b & set;
		b = (b >> 1) ^ (CRC32C_POLY & odd);
		a <<= 1;
	}
	return product;
}

/* The change of the CRC when `change` (a little-endian word) is xored in, `after` bytes before the end. */
STAGE __u32 crc_change(__u32 change, __u32 after)
{
	__u32 power = 1U << 23;	/* x^8: one byte */

	/* The word's own four bytes, then those after it. */
	after += 4;
	for (int i = 0; i < 16; i++) {
		if (after & (1U << i))
			change = crc_multiply(power, change);
		power = crc_multiply(power, power);
	}
	return change;
}

INLINE int sctp_mend_checksum(struct __sk_buff *skb, const struct packet *pkt, const struct tuple *after)
{
	__u32 change = (((__u32)pkt->flow.dport << 16) | pkt->flow.sport) ^ (((__u32)after->dport << 16) | after->sport);
	__u32 crc, at = pkt->l4 + 8;

	if (!change)
		return REASON_NONE;
	if (bpf_skb_load_bytes(skb, at, &crc, sizeof(crc)))
		return REASON_REWRITE;
	/* Zero: the device will compute it. */
	if (!crc)
		return REASON_NONE;
	crc ^= crc_change(change, skb->len - pkt->l4 - 4);
	return bpf_skb_store_bytes(skb, at, &crc, sizeof(crc), 0) ? REASON_REWRITE : REASON_NONE;
}
