/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#ifndef DENSE_PLACE_H
#define DENSE_PLACE_H
#include "kernels/core/place.h"

/* Sections of this model; kernels/core/place.h explains them. */
#ifndef DENSE_SECTION_WEIGHTS
#define DENSE_SECTION_WEIGHTS TW_SECTION_WEIGHTS
#endif
#ifndef DENSE_SECTION_TABLES
#define DENSE_SECTION_TABLES TW_SECTION_TABLES
#endif
#ifndef DENSE_SECTION_CODE
#define DENSE_SECTION_CODE TW_SECTION_CODE
#endif
#ifndef DENSE_SECTION_HOT_WEIGHTS
#define DENSE_SECTION_HOT_WEIGHTS TW_SECTION_HOT_WEIGHTS
#endif
#ifndef DENSE_SECTION_HOT_TABLES
#define DENSE_SECTION_HOT_TABLES TW_SECTION_HOT_TABLES
#endif
#ifndef DENSE_SECTION_HOT_CODE
#define DENSE_SECTION_HOT_CODE TW_SECTION_HOT_CODE
#endif
#ifndef DENSE_SECTION_ARENA
#define DENSE_SECTION_ARENA TW_SECTION_ARENA
#endif
#ifndef DENSE_SECTION_STATE
#define DENSE_SECTION_STATE TW_SECTION_STATE
#endif
#ifndef DENSE_HOOK
#define DENSE_HOOK(layer) TW_HOOK(layer)
#endif

/* Of a layer or a kernel. */
#define DENSE_WEIGHTS(of) TW_IF_HOT(DENSE_HOT_##of, DENSE_SECTION_HOT_WEIGHTS, DENSE_SECTION_WEIGHTS)
#define DENSE_TABLES(of) TW_IF_HOT(DENSE_HOT_##of, DENSE_SECTION_HOT_TABLES, DENSE_SECTION_TABLES)
#define DENSE_CODE(of) TW_IF_HOT(DENSE_HOT_##of, DENSE_SECTION_HOT_CODE, DENSE_SECTION_CODE)
/* Tables of addresses: position-independent code has them where the loader can write. */
#if defined(__PIC__) || defined(__pic__)
#define DENSE_ADDRESSES
#else
#define DENSE_ADDRESSES DENSE_SECTION_TABLES
#endif

#endif
