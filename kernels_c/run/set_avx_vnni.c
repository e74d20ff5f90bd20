/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of headers *_avx_vnni.h for processors with AVX2 and AVX-VNNI. */
#include "level.h"

#ifdef TW_SET_AVX_VNNI
#pragma GCC target("avx,avx2,fma,bmi,bmi2,avxvnni")
#define TW_LEVEL avx_vnni
#define TW_HEADERS "headers_avx_vnni.inc"
#define TW_NAMES "names_avx_vnni.inc"
#include "instances.inc"
#else
typedef int tw_set_not_built;
#endif
