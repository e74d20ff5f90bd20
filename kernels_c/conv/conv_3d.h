/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_3D and CONV_3D_TRANSPOSE, NDHWC, float32: channels of an output are summed side by side, each in the reference's
 * order. */
#ifndef TW_CONV_3D_H
#define TW_CONV_3D_H

#include "../core/epilogue.h"
#include "../core/window.h"

/* Volumes of in_d images, of which a window sees k_d. */
typedef struct {
    tw_window window;
    int32_t in_d, out_d, k_d, stride_d, dilation_d, pad_d;
} tw_volume;

/* in: x, w [k_d][k_h][k_w][in_c][out_c], bias [out_c]. out: y. */
typedef struct {
    tw_volume volume;
    tw_limits_f32 limits;
} tw_conv_3d_f32_params;

/* The volume is that of the convolution from output to input: input pixel iz reaches output iz * stride_d - pad_d +
 * kz * dilation_d through tap kz, and so along rows and columns. in: x, w [k_d][k_h][k_w][out_c][in_c], bias [out_c].
 * out: y. */
typedef tw_conv_3d_f32_params tw_conv_3d_transpose_f32_params;

/* Where output number at lies: its volume's first input element, and depth, row and column. */
typedef struct {
    const float *x;
    int32_t z, y, column;
} tw_voxel;

TW_INLINE tw_voxel tw_voxel_of(const float *x, int32_t at, const tw_volume *v) {
    const int32_t row = at / v->window.out_w, image = row / v->window.out_h;
    const tw_voxel voxel = {x + (ptrdiff_t)(image / v->out_d) * v->in_d * tw_window_image(&v->window), image % v->out_d,
                            row % v->window.out_h, at % v->window.out_w};
    return voxel;
}

TW_INLINE const float *tw_voxel_at(const float *x, int32_t z, int32_t y, int32_t column, const tw_volume *v) {
    return x + (((ptrdiff_t)z * v->window.in_h + y) * v->window.in_w + column) * v->window.in_c;
}

TW_INLINE void tw_voxel_end(float *y, const float *bias, const tw_conv_3d_f32_params *p) {
    for (int32_t c = 0; c < p->volume.window.out_c; ++c)
        y[c] = tw_clampf(y[c] + bias[c], p->limits.low, p->limits.high);
}

/* Adds a pixel's products to the sums of all channels. */
TW_INLINE void tw_conv_3d_tap(float *TW_RESTRICT y, const float *x, const float *w, const tw_window *g) {
    for (int32_t i = 0; i < g->in_c; ++i, w += g->out_c)
        for (int32_t c = 0; c < g->out_c; ++c) y[c] += x[i] * w[c];
}

TW_KERNEL(tw_conv_3d_f32) {
    const tw_conv_3d_f32_params p = *params;
    const tw_volume *v = &p.volume;
    const tw_window *g = &v->window;
    const ptrdiff_t tap = (ptrdiff_t)g->in_c * g->out_c;
    float *y = (float *)out[0];
    for (int32_t at = 0; at < g->batches * v->out_d * g->out_h * g->out_w; ++at, y += g->out_c) {
        const tw_voxel from = tw_voxel_of((const float *)in[0], at, v);
        const float *w = (const float *)in[1];
        memset(y, 0, (size_t)g->out_c * sizeof *y);
        for (int32_t kz = 0; kz < v->k_d; ++kz)
            for (int32_t ky = 0; ky < g->k_h; ++ky)
                for (int32_t kx = 0; kx < g->k_w; ++kx, w += tap) {
                    const int32_t iz = from.z * v->stride_d - v->pad_d + kz * v->dilation_d;
                    const int32_t iy = from.y * g->stride_h - g->pad_h + ky * g->dilation_h;
                    const int32_t ix = from.column * g->stride_w - g->pad_w + kx * g->dilation_w;
                    if (tw_is_inside(iz, v->in_d) && tw_is_inside(iy, g->in_h) && tw_is_inside(ix, g->in_w))
                        tw_conv_3d_tap(y, tw_voxel_at(from.x, iz, iy, ix, v), w, g);
                }
        tw_voxel_end(y, (const float *)in[2], &p);
    }
}

/* The input that reaches output out through a tap that is at far; -1 if there is none. */
TW_INLINE int32_t tw_voxel_source(int32_t out, int32_t far, int32_t stride, int32_t extent) {
    return out < far || (out - far) % stride != 0 || (out - far) / stride >= extent ? -1 : (out - far) / stride;
}

/* Adds a pixel's products, channel by channel. */
TW_INLINE void tw_conv_3d_transpose_tap(float *y, const float *x, const float *w, const tw_window *g) {
    for (int32_t c = 0; c < g->out_c; ++c, w += g->in_c)
        for (int32_t i = 0; i < g->in_c; ++i) y[c] += x[i] * w[i];
}

/* Taps run backwards, so that inputs come in rising order, as the reference adds them. */
TW_KERNEL(tw_conv_3d_transpose_f32) {
    const tw_conv_3d_f32_params p = *params;
    const tw_volume *v = &p.volume;
    const tw_window *g = &v->window;
    const float *w = (const float *)in[1];
    float *y = (float *)out[0];
    for (int32_t at = 0; at < g->batches * v->out_d * g->out_h * g->out_w; ++at, y += g->out_c) {
        const tw_voxel to = tw_voxel_of((const float *)in[0], at, v);
        memset(y, 0, (size_t)g->out_c * sizeof *y);
        for (int32_t tap = v->k_d * g->k_h * g->k_w - 1; tap >= 0; --tap) {
            const int32_t kz = tap / (g->k_h * g->k_w), ky = tap / g->k_w % g->k_h, kx = tap % g->k_w;
            const int32_t iz = tw_voxel_source(to.z + v->pad_d, kz * v->dilation_d, v->stride_d, v->in_d);
            const int32_t iy = tw_voxel_source(to.y + g->pad_h, ky * g->dilation_h, g->stride_h, g->in_h);
            const int32_t ix = tw_voxel_source(to.column + g->pad_w, kx * g->dilation_w, g->stride_w, g->in_w);
            if (iz >= 0 && iy >= 0 && ix >= 0)
                tw_conv_3d_transpose_tap(y, tw_voxel_at(to.x, iz, iy, ix, v), w + (ptrdiff_t)tap * g->in_c * g->out_c,
                                         g);
        }
        tw_voxel_end(y, (const float *)in[2], &p);
    }
}

#endif
