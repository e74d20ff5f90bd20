/* SPDX-License-Identifier: Apache-2.0 */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#ifndef FLOW_DATA_H
#define FLOW_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const float flow_9_weights[2];
extern const float flow_3_weights[1];
extern const float flow_4_weights[1];
extern const float flow_5_weights[1];

#ifdef __cplusplus
}
#endif
#endif
