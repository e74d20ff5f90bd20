/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a value unchanged: RESHAPE and similar operators, and all whose result is known when planning. */
#ifndef TW_COPY_H
#define TW_COPY_H

#include "../core/tw.h"

/* in: x [size bytes] (may be planned in place, then the call is dropped). out: y [size bytes]. */
typedef struct {
    int32_t size;
} tw_copy_params;

TW_KERNEL(tw_copy) { memmove(out[0], in[0], (size_t)params->size); }

#endif
