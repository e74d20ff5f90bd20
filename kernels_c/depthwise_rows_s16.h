/* How the kernels of DEPTHWISE_CONV_2D with int16 activations walk along an image: rows of some of its channels go to
 * scratch with their padding, so that no window has a border. */
#ifndef TW_DEPTHWISE_ROWS_S16_H
#define TW_DEPTHWISE_ROWS_S16_H

#include "conv2d_s16.h"

/* k_h rows in scratch, of row bytes each, in which a pixel takes pixel bytes; padding is zeros. The rows come again and
 * again: the image's next one takes the place of the oldest. */
typedef struct {
    int8_t *first, *oldest;
    int32_t row, pixel;
} tw_depthwise_rows_s16;

/* What a kernel knows of the channels at hand: their constants, and how many of them hold something. */
typedef struct {
    const void *constants;
    int32_t count;
} tw_depthwise_channels_s16;

/* pixels of a row of the image, x at the first of the channels, to scratch. */
typedef void tw_depthwise_keep_s16(int8_t *to, const int16_t *x, int32_t pixels, const tw_depthwise_channels_s16 *k,
                                   const tw_conv2d_s16_params *p);

/* A row of outputs, y at the first of the channels. */
typedef void tw_depthwise_line_s16(const tw_depthwise_rows_s16 *rows, int16_t *y, const tw_depthwise_channels_s16 *k,
                                   const tw_conv2d_s16_params *p);

/* The row after one. */
TW_INLINE int8_t *tw_depthwise_after_s16(int8_t *row, const tw_depthwise_rows_s16 *rows,
                                         const tw_conv2d_s16_params *p) {
    return row + rows->row < rows->first + p->k_h * rows->row ? row + rows->row : rows->first;
}

/* Row i of the image. */
TW_INLINE void tw_depthwise_next_s16(tw_depthwise_rows_s16 *rows, const int16_t *x, int32_t i,
                                     tw_depthwise_keep_s16 *keep, const tw_depthwise_channels_s16 *k,
                                     const tw_conv2d_s16_params *p) {
    if (i < 0 || i >= p->in_h)
        memset(rows->oldest, 0, (size_t)rows->row);
    else
        keep(rows->oldest + p->pad_w * rows->pixel, x + i * p->in_w * p->in_c, p->in_w, k, p);
    rows->oldest = tw_depthwise_after_s16(rows->oldest, rows, p);
}

/* All outputs of some channels, x and y at the first of them. */
TW_INLINE void tw_depthwise_images_s16(const int16_t *x, int16_t *y, tw_depthwise_rows_s16 rows,
                                       tw_depthwise_keep_s16 *keep, tw_depthwise_line_s16 *line,
                                       const tw_depthwise_channels_s16 *k, const tw_conv2d_s16_params *p) {
    memset(rows.first, 0, (size_t)(p->k_h * rows.row));
    for (int32_t b = 0; b < p->batches; ++b, x += p->in_h * p->in_w * p->in_c) {
        int32_t kept = -p->pad_h; /* the first row that is not in scratch */
        for (int32_t oy = 0; oy < p->out_h; ++oy, y += p->out_w * p->out_c) {
            const int32_t top = oy * p->stride_h - p->pad_h;
            for (kept = tw_max(kept, top); kept < top + p->k_h; ++kept)
                tw_depthwise_next_s16(&rows, x, kept, keep, k, p);
            line(&rows, y, k, p);
        }
    }
}

#endif
