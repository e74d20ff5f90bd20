/* SPDX-License-Identifier: Apache-2.0 */
/* The CRC-32 of constants, as zlib and IEEE 802.3 have it. */
#ifndef TW_CRC_H
#define TW_CRC_H

#include "../core/tw.h"

/* Constants: elements of size bytes each. */
typedef struct {
    const void *at;
    uint32_t bytes, size;
} tw_stored;

/* Goes on from crc, 0 at the beginning, as if the lowest byte of every element came first. Four bits at a time: two
 * look-ups a byte, and a table of 64 bytes. */
TW_INLINE uint32_t tw_crc(uint32_t crc, const tw_stored *stored) {
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
        0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    const unsigned char *const bytes = (const unsigned char *)stored->at;
    crc = ~crc;
    for (uint32_t i = 0; i < stored->bytes; ++i) {
        crc ^= bytes[TW_LOW_FIRST ? i : i ^ (stored->size - 1)];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#endif
