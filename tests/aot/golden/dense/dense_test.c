/* SPDX-License-Identifier: Apache-2.0 AND LicenseRef-model */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int8_t dense_test_input_0[1][6] = {
    {
        -33, 2, 66, 89, 79, 107,
    },
};
static const int8_t dense_test_want_0[1][6] = {
    {
        5, 25, -3, 22, -3, 14,
    },
};
static int8_t dense_test_got_0[6];

/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int dense_test_differs(const char *what, int run, const void *got, const void *want, size_t bytes,
                             size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("dense: %s: run %d, element %lu, byte %lu: got 0x%02x, want 0x%02x\n", what, run,
                   (unsigned long)(i / item), (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}

static int dense_test_buffers(void) {
    unsigned char *const base = (unsigned char *)dense_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0xa5, DENSE_ARENA_BYTES); /* what a run before has left */
        const void *const inputs[] = {dense_test_input_0[run]};
        void *const outputs[] = {dense_test_got_0};
        memset(dense_test_got_0, 0xa5, sizeof dense_test_got_0);
        bad |= dense_run(base, inputs, outputs) != TW_OK;
        bad |= dense_test_differs("output 0", run, dense_test_got_0, dense_test_want_0[run],
                DENSE_OUTPUT_0_BYTES, sizeof **dense_test_want_0);
    }
    return bad;
}

static int dense_test_in_place(void) {
    unsigned char *const base = (unsigned char *)dense_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0x5a, DENSE_ARENA_BYTES); /* what a run before has left */
        memcpy(base + DENSE_INPUT_0_OFFSET, dense_test_input_0[run], DENSE_INPUT_0_BYTES);
        bad |= dense_run_static(NULL, NULL) != TW_OK;
        bad |= dense_test_differs("output 0 in place", run, base + DENSE_OUTPUT_0_OFFSET, dense_test_want_0[run],
                DENSE_OUTPUT_0_BYTES, sizeof **dense_test_want_0);
    }
    return bad;
}

int main(void) {
    unsigned char *const base = (unsigned char *)dense_arena();
    int bad = dense_run(NULL, NULL, NULL) != TW_NO_MEMORY;
    bad |= dense_run(base + 1, NULL, NULL) != TW_MISALIGNED;
    bad |= dense_check() != TW_OK;
    bad |= dense_test_buffers();
    bad |= dense_test_in_place();
    printf("dense: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
