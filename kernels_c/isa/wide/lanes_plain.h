/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes in an array, for other computers; part of lanes.h, which includes this file. */
#ifndef TW_LANES_PLAIN_H
#define TW_LANES_PLAIN_H

typedef struct {
    int32_t v[TW_LANES];
} tw_acc;

#define TW_CONV_PIXELS 4
#define TW_CONV_BLOCKS 1

TW_INLINE tw_acc tw_acc_load(const int32_t *p) {
    tw_acc acc;
    memcpy(&acc, p, sizeof acc);
    return acc;
}

TW_INLINE tw_acc tw_acc_zero(void) {
    tw_acc acc;
    memset(&acc, 0, sizeof acc);
    return acc;
}

TW_INLINE tw_acc tw_acc_plus(tw_acc a, tw_acc b) {
    for (int lane = 0; lane < TW_LANES; ++lane) a.v[lane] = tw_add(a.v[lane], b.v[lane]);
    return a;
}

TW_INLINE tw_acc tw_acc_minus(tw_acc a, tw_acc b) {
    for (int lane = 0; lane < TW_LANES; ++lane) a.v[lane] = tw_subtract(a.v[lane], b.v[lane]);
    return a;
}

TW_INLINE tw_acc tw_acc_left(tw_acc a, int n) {
    for (int lane = 0; lane < TW_LANES; ++lane) a.v[lane] = tw_shift_left(a.v[lane], n);
    return a;
}

/* a * by, which wraps, shifted to the right. */
TW_INLINE tw_acc tw_acc_times_right(tw_acc a, int32_t by, int n) {
    for (int lane = 0; lane < TW_LANES; ++lane) a.v[lane] = tw_times(a.v[lane], by) >> n;
    return a;
}

/* acc[lane] += four bytes of x . four of w[lane], for the lanes from first to before end. */
TW_INLINE void tw_dot4_lanes(tw_acc *acc, int first, int end, const uint8_t *x, const int8_t *w) {
    for (int lane = first; lane < end; ++lane) {
        const int8_t *p = w + 4 * lane;
        acc->v[lane] = tw_add(acc->v[lane], x[0] * p[0] + x[1] * p[1] + x[2] * p[2] + x[3] * p[3]);
    }
}

TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
    tw_dot4_lanes(&acc, 0, TW_LANES, x, w);
    return acc;
}

TW_INLINE tw_acc tw_acc_dot4_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    tw_dot4_lanes(&acc, 0, TW_LANES / 2, x, w);
    tw_dot4_lanes(&acc, TW_LANES / 2, TW_LANES, x + behind, w);
    return acc;
}

/* The same of two int16 each. */
TW_INLINE void tw_dot2_lanes(tw_acc *acc, int first, int end, const uint8_t *x, const int8_t *w) {
    int16_t two[2], p[2];
    memcpy(two, x, sizeof two);
    for (int lane = first; lane < end; ++lane) {
        memcpy(p, w + 4 * lane, sizeof p);
        acc->v[lane] = tw_add(acc->v[lane], two[0] * p[0] + two[1] * p[1]);
    }
}

TW_INLINE tw_acc tw_acc_dot2(tw_acc acc, const uint8_t *x, const int8_t *w) {
    tw_dot2_lanes(&acc, 0, TW_LANES, x, w);
    return acc;
}

TW_INLINE tw_acc tw_acc_dot2_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    tw_dot2_lanes(&acc, 0, TW_LANES / 2, x, w);
    tw_dot2_lanes(&acc, TW_LANES / 2, TW_LANES, x + behind, w);
    return acc;
}

TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    if (count >= TW_LANES)
        for (int lane = 0; lane < TW_LANES; ++lane) acc.v[lane] = tw_add(acc.v[lane], x[lane] * (int16_t)w[lane]);
    else
        for (int lane = 0; lane < count; ++lane) acc.v[lane] = tw_add(acc.v[lane], x[lane] * (int16_t)w[lane]);
    return acc;
}

typedef struct {
    tw_acc mult, left, right;
    tw_epilogue_s8 end;
} tw_ends;

TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    tw_ends ends;
    ends.mult = tw_acc_load(channels->mult + c);
    ends.end = channels->end;
    for (int lane = 0; lane < TW_LANES; ++lane) {
        ends.left.v[lane] = tw_max(channels->shift[c + lane], 0);
        ends.right.v[lane] = tw_max(-channels->shift[c + lane], 0);
    }
    return ends;
}

TW_INLINE tw_acc tw_acc_requantize(tw_acc acc, const tw_ends *ends) {
    for (int lane = 0; lane < TW_LANES; ++lane) {
        const int32_t high = tw_mul_high(tw_shift_left(acc.v[lane], ends->left.v[lane]), ends->mult.v[lane]);
        acc.v[lane] = tw_round_shift(high, ends->right.v[lane]);
    }
    return acc;
}

TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int ending, int32_t count) {
    (void)ending;
    acc = tw_acc_requantize(acc, ends);
    if (count >= TW_LANES) {
        for (int lane = 0; lane < TW_LANES; ++lane) y[lane] = tw_epilogue_s8_of(acc.v[lane], &ends->end);
        return;
    }
    for (int lane = 0; lane < count; ++lane) y[lane] = tw_epilogue_s8_of(acc.v[lane], &ends->end);
}

TW_INLINE void tw_acc_end_s16(int16_t *y, tw_acc acc, tw_acc mult, const tw_limits *limits, int32_t count) {
    for (int32_t lane = 0; lane < tw_min(count, TW_LANES); ++lane) {
        const int64_t sum = (int64_t)acc.v[lane] * mult.v[lane] + (1LL << 31);
        y[lane] = (int16_t)tw_clamp((int32_t)(sum >> 32), limits->low, limits->high);
    }
}

#endif
