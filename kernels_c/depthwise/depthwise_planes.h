/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D channel by channel: how the windows of one channel lie in an image.
 *
 * Lines (rows or columns of the image) of one channel lie in a ring, interleaved: column after column, as many elements
 * of each as windows have lines. So a window is one run of elements, and the next one begins stride columns further. A
 * line takes the place of the one that no window needs any more; what turns is the order of the weights. */
#ifndef TW_DEPTHWISE_PLANES_H
#define TW_DEPTHWISE_PLANES_H

#include "../core/window.h"

/* The windows along one axis; with a dilation, of the outputs that are dilation apart: without one among themselves.
 * x_first, y_first: the first of their inputs inside the image and the first output, in bytes, as are the steps. */
typedef struct {
    int32_t in, out, taps, stride, pad, x_step, y_step, x_first, y_first;
} tw_plane_axis;

/* How many phases outputs have along rows or columns: those of one phase are dilation apart. */
TW_INLINE int32_t tw_plane_phases(const tw_window *w, int32_t rows) {
    return rows ? tw_min(w->dilation_h, w->out_h) : tw_min(w->dilation_w, w->out_w);
}

/* The windows along rows or columns, of all outputs, or of those from phase on that are dilation apart. */
TW_INLINE tw_plane_axis tw_plane_axis_of(const tw_window *w, int32_t rows, int32_t phase) {
    const tw_plane_axis down = {
        w->in_h, w->out_h, w->k_h, w->stride_h, w->pad_h, w->in_w * w->in_c, w->out_w * w->out_c, 0, 0};
    const tw_plane_axis across = {w->in_w, w->out_w, w->k_w, w->stride_w, w->pad_w, w->in_c, w->out_c, 0, 0};
    const int32_t dilation = rows ? w->dilation_h : w->dilation_w;
    tw_plane_axis a = rows ? down : across;
    if (dilation == 1) return a;
    const int32_t pad = tw_taps_in(tw_max(a.pad - phase, 0), dilation), first = phase - a.pad + pad * dilation;
    a.in = tw_taps_in(tw_max(a.in - first, 0), dilation);
    a.out = tw_taps_in(a.out - phase, dilation);
    a.pad = pad;
    a.x_first = first * a.x_step, a.y_first = phase * a.y_step;
    a.x_step *= dilation, a.y_step *= dilation;
    return a;
}

/* Columns of a ring: all that windows reach, and the image with the padding in front. */
TW_INLINE int32_t tw_plane_columns(const tw_plane_axis *a) {
    return tw_max(a->pad + a->in, (a->out - 1) * a->stride + a->taps);
}

#endif
