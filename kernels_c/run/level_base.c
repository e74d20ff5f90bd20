/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel for any processor. */
#include "level.h"

#define TW_LEVEL base
#include "instances.inc"
