/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel for processors with AVX512-VNNI. */
#include "level.h"

#ifdef TW_LEVELS_X86
#pragma GCC target("avx,avx2,fma,bmi,bmi2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni")
#define TW_LEVEL v4
#include "instances.inc"
#else
typedef int tw_level_not_built;
#endif
