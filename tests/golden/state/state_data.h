/* state: made by twinfer VERSION for target generic, model SHA-256 0000000000000000000000000000000000000000000000000000000000000000. Do not edit. */
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
