/* state: made by twinfer VERSION for target generic, model SHA-256 0000000000000000000000000000000000000000000000000000000000000000. Do not edit. */
#include "state_data.h"

#include <stdalign.h>
