/* SPDX-License-Identifier: Apache-2.0 */
/* TFLite_Detection_PostProcess: boxes from encodings and anchors, of which those stay that overlap no better one. */
#ifndef TW_DETECTION_H
#define TW_DETECTION_H

#include <math.h>

#include "../core/heap.h"

TW_NEED(DBL_MANT_DIG == 53, TW_NEED_DOUBLE);

/* in: encodings [boxes, coords] (y, x, h, w, others), scores [boxes, offset + classes], anchors [boxes, 4]. out: boxes
 * [rows, 4] (top, left, bottom, right), classes [rows], scores [rows], number of detections [1]. scratch: boxes * 24
 * bytes and 4 per box that one pass may choose.
 * regular 1: each class chooses up to per_class boxes by its own scores; the best detections of all stay, in falling
 * order. regular 0: up to detections boxes are chosen by their best class; each gives per_box rows for its best classes,
 * of which there are used. Rows without a detection are 0. */
typedef struct {
    int32_t boxes, coords, classes, offset, rows, detections, per_class, per_box, used, regular;
    float y_scale, x_scale, h_scale, w_scale, least, overlap;
} tw_detection_params;

/* A pass: boxes [n, 4], their scores [n], a heap of the boxes that wait, best on top, and those that were chosen. */
typedef struct {
    float *boxes, *scores;
    int32_t *heap, *chosen;
    int32_t waiting, count;
} tw_detection_pass;

/* Whether box a stands after box b: its score is less, or the same and it comes later. */
TW_INLINE int tw_detection_after(const void *x, int32_t a, int32_t b) {
    const float *scores = (const float *)x;
    return scores[a] < scores[b] || (a > b && !(scores[b] < scores[a]));
}

/* In float64, rounded once per coordinate. */
TW_INLINE void tw_detection_decode(const tw_detection_params *p, const float *code, const float *anchor, float *box) {
    const double h = (double)anchor[2], w = (double)anchor[3];
    const float y = (float)((double)code[0] / (double)p->y_scale * h + (double)anchor[0]);
    const float x = (float)((double)code[1] / (double)p->x_scale * w + (double)anchor[1]);
    const float half_h = (float)(0.5 * exp((double)code[2] / (double)p->h_scale) * h);
    const float half_w = (float)(0.5 * exp((double)code[3] / (double)p->w_scale) * w);
    box[0] = y - half_h;
    box[1] = x - half_w;
    box[2] = y + half_h;
    box[3] = x + half_w;
}

TW_INLINE float tw_detection_area(const float *box) { return (box[2] - box[0]) * (box[3] - box[1]); }

/* What both boxes have in common along an axis, from coordinate d to d + 2. */
TW_INLINE float tw_detection_common(const float *a, const float *b, int32_t d) {
    const float from = a[d] < b[d] ? b[d] : a[d], to = b[d + 2] < a[d + 2] ? b[d + 2] : a[d + 2];
    return to - from < 0.0f ? 0.0f : to - from;
}

/* The intersection of two boxes over their union. */
TW_INLINE float tw_detection_overlap(const float *a, const float *b) {
    const float area_a = tw_detection_area(a), area_b = tw_detection_area(b);
    if (area_a <= 0.0f || area_b <= 0.0f) return 0.0f;
    const float both = tw_detection_common(a, b, 0) * tw_detection_common(a, b, 1);
    return both / (area_a + area_b - both);
}

/* Starts a pass: the boxes with a score of least and more wait. */
TW_INLINE void tw_detection_start(tw_detection_pass *pass, int32_t boxes, float least) {
    pass->waiting = pass->count = 0;
    for (int32_t i = 0; i < boxes; ++i)
        if (pass->scores[i] >= least) pass->heap[pass->waiting++] = i;
    tw_heap_build(tw_detection_after, pass->scores, pass->heap, pass->waiting);
}

TW_INLINE int tw_detection_stands(const tw_detection_pass *pass, int32_t box, float overlap) {
    for (int32_t i = 0; i < pass->count; ++i)
        if (tw_detection_overlap(pass->boxes + 4 * pass->chosen[i], pass->boxes + 4 * box) > overlap) return 0;
    return 1;
}

/* The best box that waits and overlaps no chosen one too much; it is chosen. -1 if there is none. */
TW_INLINE int32_t tw_detection_next(tw_detection_pass *pass, float overlap) {
    while (pass->waiting > 0) {
        const int32_t box = pass->heap[0];
        pass->heap[0] = pass->heap[--pass->waiting];
        tw_heap_sink(tw_detection_after, pass->scores, pass->heap, pass->waiting, 0);
        if (!tw_detection_stands(pass, box, overlap)) continue;
        pass->chosen[pass->count++] = box;
        return box;
    }
    return -1;
}

/* Puts a detection among count that are in falling order, behind equal ones; the last of more than most drops out.
 * Returns their number. */
TW_INLINE int32_t tw_detection_insert(void *const *rows, int32_t count, int32_t most, const float *box, float class_,
                                      float score) {
    float *boxes = (float *)rows[0], *classes = (float *)rows[1], *scores = (float *)rows[2];
    int32_t at = count;
    while (at > 0 && scores[at - 1] < score) --at;
    if (at == most) return count;
    const int32_t last = tw_min(count, most - 1);
    for (int32_t i = last; i > at; --i) {
        scores[i] = scores[i - 1];
        classes[i] = classes[i - 1];
        memcpy(boxes + 4 * i, boxes + 4 * (i - 1), 4 * sizeof(float));
    }
    scores[at] = score;
    classes[at] = class_;
    memcpy(boxes + 4 * at, box, 4 * sizeof(float));
    return last + 1;
}

/* Returns the number of detections. scores: the first class's of box 0. */
TW_INLINE int32_t tw_detection_regular(const tw_detection_params *p, tw_detection_pass *pass, const float *scores,
                                       void *const *out) {
    int32_t count = 0;
    for (int32_t c = 0; c < p->classes; ++c) {
        for (int32_t i = 0; i < p->boxes; ++i) pass->scores[i] = scores[i * (p->offset + p->classes) + c];
        tw_detection_start(pass, p->boxes, p->least);
        while (pass->count < p->per_class) {
            const int32_t box = tw_detection_next(pass, p->overlap);
            if (box < 0) break;
            count = tw_detection_insert(out, count, p->detections, pass->boxes + 4 * box, (float)c, pass->scores[box]);
        }
    }
    return count;
}

/* The same. */
TW_INLINE int32_t tw_detection_fast(const tw_detection_params *p, tw_detection_pass *pass, const float *scores,
                                    void *const *out) {
    for (int32_t i = 0; i < p->boxes; ++i) {
        const float *own = scores + i * (p->offset + p->classes);
        pass->scores[i] = own[0];
        for (int32_t c = 1; c < p->classes; ++c)
            if (own[c] > pass->scores[i]) pass->scores[i] = own[c];
    }
    tw_detection_start(pass, p->boxes, p->least);
    while (pass->count < p->detections) {
        const int32_t row = pass->count * p->per_box, box = tw_detection_next(pass, p->overlap);
        if (box < 0) break;
        void *const rows[] = {(float *)out[0] + 4 * row, (float *)out[1] + row, (float *)out[2] + row};
        const float *own = scores + box * (p->offset + p->classes);
        for (int32_t c = 0, count = 0; c < p->classes; ++c)
            count = tw_detection_insert(rows, count, p->used, pass->boxes + 4 * box, (float)c, own[c]);
    }
    return pass->count;
}

TW_KERNEL(tw_detection) {
    const tw_detection_params p = *params;
    const float *scores = (const float *)in[1] + p.offset;
    float *memory = (float *)scratch;
    tw_detection_pass pass = {
        memory, memory + 4 * p.boxes, (int32_t *)(memory + 5 * p.boxes), (int32_t *)(memory + 6 * p.boxes), 0, 0};
    for (int32_t i = 0; i < p.boxes; ++i)
        tw_detection_decode(&p, (const float *)in[0] + i * p.coords, (const float *)in[2] + 4 * i, memory + 4 * i);
    memset(out[0], 0, (size_t)p.rows * 4 * sizeof(float));
    memset(out[1], 0, (size_t)p.rows * sizeof(float));
    memset(out[2], 0, (size_t)p.rows * sizeof(float));
    const int32_t count =
        p.regular ? tw_detection_regular(&p, &pass, scores, out) : tw_detection_fast(&p, &pass, scores, out);
    *(float *)out[3] = (float)count;
}

#endif
