/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel for processors of Arm's with SDOT. */
#include "level.h"

#ifdef TW_LEVELS_ARM
#pragma GCC target("arch=armv8.2-a+dotprod")
#define TW_LEVEL dotprod
#include "instances.inc"
#else
typedef int tw_level_not_built;
#endif
