/* SPDX-License-Identifier: Apache-2.0 */
/* NON_MAX_SUPPRESSION_V4 and _V5: the best boxes, without those that overlap a better one too much. */
#ifndef TW_NON_MAX_SUPPRESSION_H
#define TW_NON_MAX_SUPPRESSION_H

#include <math.h>

#include "../core/heap.h"

/* in: boxes [count, 4] as y, x, y, x of two corners, scores [count], the overlap from which a box is dropped, the score
 * that it must be above, and with soft 1 sigma: a box that overlaps a better one loses score by it. out: numbers [most]
 * int32, with soft 1 scores [most], and how many there are; 0 behind these. scratch: 3 * count words: a heap of numbers,
 * scores, and how many chosen boxes each was compared with. */
typedef struct {
    int32_t count, most, soft;
} tw_non_max_suppression_params;

/* The top of the heap is the best box; of equal ones the first. */
TW_INLINE int tw_box_worse(const void *scores, int32_t a, int32_t b) {
    const float *s = (const float *)scores;
    return s[a] < s[b] || (s[a] == s[b] && a > b);
}

/* The lesser and the greater; of what is no number the first. */
TW_INLINE float tw_lesser(float a, float b) { return b < a ? b : a; }
TW_INLINE float tw_greater(float a, float b) { return a < b ? b : a; }

/* Intersection over union of two boxes; 0 where one has no area. */
TW_INLINE float tw_overlap(const float *a, const float *b) {
    const float a_top = tw_lesser(a[0], a[2]), a_end = tw_greater(a[0], a[2]);
    const float a_left = tw_lesser(a[1], a[3]), a_right = tw_greater(a[1], a[3]);
    const float b_top = tw_lesser(b[0], b[2]), b_end = tw_greater(b[0], b[2]);
    const float b_left = tw_lesser(b[1], b[3]), b_right = tw_greater(b[1], b[3]);
    const float a_area = (a_end - a_top) * (a_right - a_left), b_area = (b_end - b_top) * (b_right - b_left);
    if (a_area <= 0.0f || b_area <= 0.0f) return 0.0f;
    const float height = tw_greater(tw_lesser(a_end, b_end) - tw_greater(a_top, b_top), 0.0f);
    const float width = tw_greater(tw_lesser(a_right, b_right) - tw_greater(a_left, b_left), 0.0f);
    const float both = height * width, all = a_area + b_area - both;
    return all == 0.0f ? 0.0f : both / all;
}

/* What comes of the box with the highest score: 2 it is chosen, 1 its score has fallen, 0 it is dropped. */
TW_INLINE int32_t tw_judge_box(const float *boxes, int32_t box, float *score, const int32_t *chosen, int32_t from,
                               int32_t to, const float *limits, float factor) {
    const float before = *score;
    for (int32_t j = to - 1; j >= from; --j) {
        const float overlap = tw_overlap(boxes + 4 * (ptrdiff_t)box, boxes + 4 * (ptrdiff_t)chosen[j]);
        if (overlap >= limits[0]) return 0;
        if (factor != 0.0f) *score = *score * expf(factor * overlap * overlap);
        if (*score <= limits[1]) break;
    }
    return *score == before ? 2 : *score > limits[1];
}

TW_KERNEL(tw_non_max_suppression) {
    const tw_non_max_suppression_params p = *params;
    const float *boxes = (const float *)in[0];
    const float limits[2] = {*(const float *)in[2], *(const float *)in[3]}, sigma = p.soft ? *(const float *)in[4] : 0;
    const float factor = sigma > 0.0f ? -0.5f / sigma : 0.0f;
    int32_t *chosen = (int32_t *)out[0], *heap = (int32_t *)scratch, *begins = heap + 2 * (ptrdiff_t)p.count;
    float *scores = (float *)scratch + p.count, *chosen_scores = (float *)out[1];
    int32_t left = 0, count = 0;
    memcpy(scores, in[1], (size_t)p.count * sizeof(float));
    for (int32_t i = 0; i < p.count; ++i) {
        begins[i] = 0;
        if (scores[i] > limits[1]) heap[left++] = i;
    }
    tw_heap_build(tw_box_worse, scores, heap, left);
    while (count < p.most && left > 0) {
        const int32_t box = heap[0];
        const int32_t fate = tw_judge_box(boxes, box, scores + box, chosen, begins[box], count, limits, factor);
        begins[box] = count;
        if (fate == 2) {
            if (p.soft) chosen_scores[count] = scores[box];
            chosen[count++] = box;
        }
        if (fate != 1) heap[0] = heap[--left];
        tw_heap_sink(tw_box_worse, scores, heap, left, 0);
    }
    *(int32_t *)out[1 + p.soft] = count;
    for (int32_t i = count; i < p.most; ++i) {
        chosen[i] = 0;
        if (p.soft) chosen_scores[i] = 0.0f;
    }
}

#endif
