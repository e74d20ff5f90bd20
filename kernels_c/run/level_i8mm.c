/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel for processors of Arm's with USDOT and SMMLA. */
#include "level.h"

#ifdef TW_LEVELS_ARM
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#define TW_LEVEL i8mm
#include "instances.inc"
#else
typedef int tw_level_not_built;
#endif
