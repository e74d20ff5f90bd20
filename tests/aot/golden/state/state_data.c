/* SPDX-License-Identifier: LicenseRef-model */
/* state: made by twinfer VERSION for target generic. Do not edit. */
#include "state_data.h"
#include "state.h"

#include <stdalign.h>

const char state_model_sha256[65] = "0000000000000000000000000000000000000000000000000000000000000000";
