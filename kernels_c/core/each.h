/* SPDX-License-Identifier: Apache-2.0 */
/* One operand, one output, element by element. */
#ifndef TW_EACH_H
#define TW_EACH_H

#include "tw.h"

#define TW_EACH_POINTER(name, x_type, y_type, qualifier, value)                                                        \
    const name##_params p = *params;                                                                                   \
    const x_type *qualifier from = (const x_type *)in[0];                                                              \
    y_type *qualifier to = (y_type *)out[0];                                                                           \
    for (int32_t i = 0; i < p.size; ++i) {                                                                             \
        const x_type x = from[i];                                                                                      \
        to[i] = (y_type)(value);                                                                                       \
    }

/* The body of a kernel whose params p have a size: y = value, an expression of x and p, of all elements. The output may
 * be planned in place. */
#define TW_EACH(name, x_type, y_type, value) TW_EACH_POINTER(name, x_type, y_type, , value)

/* The same if it never is. */
#define TW_EACH_APART(name, x_type, y_type, value) TW_EACH_POINTER(name, x_type, y_type, TW_RESTRICT, value)

#endif
