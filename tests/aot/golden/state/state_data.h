/* SPDX-License-Identifier: Apache-2.0 */
/* state: made by twinfer VERSION for target generic. Do not edit. */
#ifndef STATE_DATA_H
#define STATE_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif


#ifdef __cplusplus
}
#endif
#endif
