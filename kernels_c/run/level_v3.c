/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel for processors with AVX2. */
#include "level.h"

#ifdef TW_LEVELS_X86
#pragma GCC target("avx,avx2,fma,bmi,bmi2")
#define TW_LEVEL v3
#include "instances.inc"
#else
typedef int tw_level_not_built;
#endif
