/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights taken several at once. */
#ifndef TW_ROWS_H
#define TW_ROWS_H

#include "tw.h"

/* Where tiles begin: step further each time, but the last one early enough to end with the rows, so it may repeat some
 * of the tile before. apart: from row to row of a tile, 1. If there are fewer rows than a tile has, a tile is one row
 * many times: step 1, apart 0. */
typedef struct {
    int32_t step, apart;
} tw_rows;

TW_INLINE tw_rows tw_rows_of(int32_t count, int32_t tile) {
    const tw_rows whole = {tile, 1}, one = {1, 0};
    return count >= tile ? whole : one;
}

#endif
