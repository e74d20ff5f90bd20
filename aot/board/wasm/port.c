/* SPDX-License-Identifier: Apache-2.0 */
/* What hosted.c leaves to the machine: the clock is the host's, which says what it has counted so far. */
#include "harness.h"

__attribute__((import_module("twinfer"), import_name("clock"))) uint64_t tw_host_clock(void);
uint64_t tw_clock(void) { return tw_host_clock(); }
