/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED on the DSP extension: four channels at a time, so that they share the unpacking of x. */
#ifndef TW_FULLY_CONNECTED_DSP_H
#define TW_FULLY_CONNECTED_DSP_H

#include "../isa/dsp/dsp_tile.h"

/* int8. in: x [batches, depth], packed weights (dsp_tile.h) with two pairs of channels alternating by two words, out
 * padded to four: [out / 4][k4 / 4][2][2]; bias int32 [out padded], doubled, with the input zero point folded in; mult
 * int32 [mults] and right shift int8 [mults], 1..22. mults: 1, or out padded to four. out: y [batches, out]. scratch:
 * int8 [k4], k4: depth rounded up to 4; no scratch if depth is k4. chunk: words of a pair after which the sum of its
 * second channel is read out; even. bytes: whether weights are stored so. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, k4, chunk, out, mults, bytes;
} tw_fully_connected_dsp_s8_params;

/* The end of channel c. ends: multipliers, then right shifts. */
TW_INLINE tw_dsp_channel tw_fully_connected_dsp_end(const void *const *ends, int32_t c, int32_t zero) {
    const int32_t shift = ((const int8_t *)ends[1])[c];
    const tw_dsp_channel channel = {((const int32_t *)ends[0])[c], tw_rounding(zero, shift), shift};
    return channel;
}

/* twice[4] += the doubled sums of four channels over so many words of a pair, read out after each chunk of them. Returns
 * where the weights end. */
TW_INLINE const uint32_t *tw_fully_connected_dsp_sums(const int8_t *x, const uint32_t *w, int32_t *twice, int32_t words,
                                                      int32_t chunk, int32_t bytes) {
    for (int32_t left = words; left > 0; left -= chunk) {
        int32_t both[2], first[2];
        const int32_t now = tw_min(left, chunk);
        w = tw_dsp_sums1(x, w, now, bytes, both, first);
        for (int j = 0; j < 2; ++j) {
            twice[2 * j] = tw_add(twice[2 * j], tw_shift_left(first[j], 1));
            twice[2 * j + 1] = tw_add(twice[2 * j + 1], tw_dsp_second(both[j], first[j]));
        }
        x += 2 * now;
    }
    return w;
}

/* Channels c..c + 3 of one output. Channels beyond the last are written to the first one's place and overwritten there.
 * all: the scale, if there is only one. */
TW_INLINE const uint32_t *tw_fully_connected_dsp_four(const int8_t *x, const uint32_t *w, const void *const *in,
                                                      int8_t *y, int32_t c, const tw_dsp_channel *all,
                                                      const tw_fully_connected_dsp_s8_params *p) {
    const int32_t *bias = (const int32_t *)in[2] + c;
    const int32_t count = p->out % 4 == 0 ? 4 : p->out - c;
    int32_t twice[4] = {0, 0, 0, 0};
    w = tw_fully_connected_dsp_sums(x, w, twice, p->k4 / 2, p->chunk, p->bytes);
    for (int j = 3; j >= 0; --j) {
        const tw_dsp_channel end = p->mults > 1 ? tw_fully_connected_dsp_end(in + 3, c + j, p->end.zero) : *all;
        y[c + (j < count ? j : 0)] = tw_dsp_output(tw_add(bias[j], twice[j]), &end);
    }
    return w;
}

#if defined(TW_DSP_LOOPS) && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__)
#define TW_DENSE_ROWS 1
/* All channels of one output, a multiple of four, with one scale: weights are halves, sums over depth, a multiple of 8,
 * fit. In assembly, the ends too: gcc keeps neither in registers. r0: x, r1: w, lr: bias; r4, r5: sums of two pairs, r6,
 * r7: those of their first channels. */
static TW_NOINLINE void tw_fully_connected_dsp_row(const int8_t *x, const uint32_t *w, const int32_t *bias, int8_t *y,
                                                   const tw_dsp_channel *all, int32_t depth, int32_t out) {
    const int8_t *const first = x, *const end = x + depth;
    const int32_t *const last = bias + out;
    const int32_t ends[3] = {all->mult, all->rounding, all->shift};
    const int32_t skip = (-depth / 8 & 3) * 124; /* eights of x: four a round, 124 bytes of code each */
#define TW_DENSE_FOUR(x)                                                                                               \
    "ldmia r1!, {r8, r9, r10, r11}\n\tsxtb16 r12, " x ", ror #8\n\tsxtb16 " x ", " x "\n\t"                            \
    "smlad r4, r8, " x ", r4\n\tsmlad r4, r9, r12, r4\n\tsmlad r5, r10, " x ", r5\n\tsmlad r5, r11, r12, r5\n\t"       \
    "sxtb16 r8, r8\n\tsxtb16 r9, r9\n\tsxtb16 r10, r10\n\tsxtb16 r11, r11\n\t"                                         \
    "smlad r6, r8, " x ", r6\n\tsmlad r6, r9, r12, r6\n\tsmlad r7, r10, " x ", r7\n\tsmlad r7, r11, r12, r7\n\t"
#define TW_DENSE_EIGHT "ldrd r2, r3, [r0], #8\n\t" TW_DENSE_FOUR("r2") TW_DENSE_FOUR("r3")
#define TW_DENSE_END(sum, to)                                                                                          \
    "smmlar r7, " sum ", r4, r5\n\tadd r7, r7, " sum ", asr #31\n\tasr r7, r7, r6\n\tssat r7, #8, r7\n\t"              \
    "strb r7, [r0, #" to "]\n\t"
    register const int8_t *from __asm("r0") = x;
    register const uint32_t *weights __asm("r1") = w;
    register const int32_t *starts __asm("lr") = bias;
    __asm volatile(
        "1:\n\tldr r3, %[skip]\n\tmov r4, #0\n\tmov r5, #0\n\tmov r6, #0\n\tmov r7, #0\n\tadd pc, "
        "r3\n\tnop\n2:\n\t" TW_DENSE_EIGHT TW_DENSE_EIGHT TW_DENSE_EIGHT TW_DENSE_EIGHT
        "ldr r3, %[end]\n\tcmp r0, r3\n\tbne 2b\n\t"
        "sub r4, r4, r6\n\tsub r5, r5, r7\n\tldmia lr!, {r8, r9, r10, r11}\n\t"
        "add r8, r8, r6, lsl #1\n\tadd r9, r9, r4, asr #7\n\t"
        "add r10, r10, r7, lsl #1\n\tadd r11, r11, r5, asr #7\n\t"
        "ldrd r4, r5, %[ends]\n\tldr r6, %[shift]\n\tldr r0, %[y]\n\t" TW_DENSE_END("r8", "0") TW_DENSE_END("r9", "1")
            TW_DENSE_END("r10", "2") TW_DENSE_END(
                "r11",
                "3") "add r0, r0, #4\n\tstr r0, %[y]\n\tldr r3, %[last]\n\tldr r0, %[first]\n\tcmp lr, r3\n\tbne 1b"
        : "+r"(from), "+r"(weights), "+r"(starts), [y] "+m"(y)
        : [skip] "m"(skip), [ends] "m"(ends), [shift] "m"(ends[2]), [last] "m"(last), [first] "m"(first), [end] "m"(end)
        : "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cc", "memory");
#undef TW_DENSE_FOUR
#undef TW_DENSE_EIGHT
#undef TW_DENSE_END
}
#else
#define TW_DENSE_ROWS 0
TW_INLINE void tw_fully_connected_dsp_row(const int8_t *x, const uint32_t *w, const int32_t *bias, int8_t *y,
                                          const tw_dsp_channel *all, int32_t depth, int32_t out) {
    (void)x, (void)w, (void)bias, (void)y, (void)all, (void)depth, (void)out;
}
#endif

TW_KERNEL(tw_fully_connected_dsp_s8) {
    const tw_fully_connected_dsp_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_dsp_channel all = tw_fully_connected_dsp_end(in + 3, 0, p.end.zero);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const uint32_t *w = (const uint32_t *)in[1];
        if (p.depth != p.k4) memcpy(scratch, x, (size_t)p.depth);
        const int32_t row = p.depth % 8 == 0 && p.out % 4 == 0 && p.mults == 1 && !p.bytes && p.chunk >= p.k4 / 2;
        if (TW_DENSE_ROWS && row) tw_fully_connected_dsp_row(x, w, (const int32_t *)in[2], y, &all, p.depth, p.out);
        for (int32_t c = TW_DENSE_ROWS && row ? p.out : 0; c < p.out; c += 4)
            w = tw_fully_connected_dsp_four(p.depth != p.k4 ? (const int8_t *)scratch : x, w, in, y, c, &all, &p);
        tw_dsp_activation(y, p.out, p.end.low, p.end.high);
    }
}

/* What was uint8. in: x [batches, depth], packed weights and bias as above; end scales doubled sums. */
typedef struct {
    tw_unsigned_end end;
    int32_t batches, depth, k4, chunk, out, bytes;
} tw_fully_connected_unsigned_dsp_s8_params;

TW_KERNEL(tw_fully_connected_unsigned_dsp_s8) {
    const tw_fully_connected_unsigned_dsp_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const uint32_t *w = (const uint32_t *)in[1];
        const int32_t *bias = (const int32_t *)in[2];
        if (p.depth != p.k4) memcpy(scratch, x, (size_t)p.depth);
        for (int32_t c = 0; c < p.out; c += 4, bias += 4) {
            int32_t twice[4] = {bias[0], bias[1], bias[2], bias[3]};
            w = tw_fully_connected_dsp_sums(p.depth != p.k4 ? (const int8_t *)scratch : x, w, twice, p.k4 / 2, p.chunk,
                                            p.bytes);
            for (int j = 0; j < tw_min(4, p.out - c); ++j) y[c + j] = tw_output_unsigned(twice[j], &p.end);
        }
    }
}

/* int8, rows of one or two weights: one SMLAD an output. in: x [batches, depth]; int32 [out][2]: a row's weights as two
 * halves (0 for one that is not there), then its bias, doubled, with the input zero point folded in; mult int32 [mults]
 * and right shift int8 [mults], 1..22. mults: 1 or out. out: y [batches, out]. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, out, mults;
} tw_fully_connected_short_dsp_s8_params;

TW_KERNEL(tw_fully_connected_short_dsp_s8) {
    const tw_fully_connected_short_dsp_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_dsp_channel all = tw_fully_connected_dsp_end(in + 2, 0, p.end.zero);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const uint32_t twice = tw_pack((uint32_t)(2 * x[0]), p.depth > 1 ? (uint32_t)(2 * x[1]) : 0);
        const int32_t *row = (const int32_t *)in[1];
        for (int32_t c = 0; c < p.out; ++c, row += 2) {
            const tw_dsp_channel end = p.mults > 1 ? tw_fully_connected_dsp_end(in + 2, c, p.end.zero) : all;
            y[c] = tw_dsp_output(tw_dual(twice, (uint32_t)row[0], row[1]), &end);
        }
        tw_dsp_activation(y, p.out, p.end.low, p.end.high);
    }
}

#endif
