/* SPDX-License-Identifier: Apache-2.0 AND LicenseRef-model */
/* state: made by twinfer VERSION for target generic. Do not edit. */
#include "state.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int8_t state_test_want_0[3][6] = {
    {
        -7, -7, -7, -7, -7, -7,
    },
    {
        -7, -7, -7, -7, -7, -7,
    },
    {
        -7, -7, -7, -7, -7, -7,
    },
};
static const float state_test_want_1[3][5] = {
    {
        0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
    },
    {
        0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
    },
    {
        0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
    },
};
static int8_t state_test_got_0[6];
static float state_test_got_1[5];

/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int state_test_differs(const char *what, int run, const void *got, const void *want, size_t bytes,
                             size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("state: %s: run %d, element %lu, byte %lu: got 0x%02x, want 0x%02x\n", what, run,
                   (unsigned long)(i / item), (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}


/* Compares floats, each within 1e-05 of the largest magnitude there is, and says where the first is that differs by
 * more: 1 if there is one, else 0. One NaN is as good as another. */
static int state_test_far(const char *what, int run, const void *got, const float *want, size_t bytes) {
    float most = 0.0f;
    for (size_t i = 0; i < bytes / sizeof *want; ++i) {
        const float size = want[i] < 0.0f ? -want[i] : want[i];
        if (size > most && size <= FLT_MAX) most = size;
    }
    for (size_t i = 0; i < bytes / sizeof *want; ++i) {
        const float w = want[i];
        float g;
        memcpy(&g, (const unsigned char *)got + i * sizeof g, sizeof g);
        if (g == w || (g != g && w != w) || (g > w ? g - w : w - g) <= 1e-05f * most) continue;
        printf("state: %s: run %d, element %lu: got %.9g, want %.9g\n", what, run, (unsigned long)i, (double)g,
               (double)w);
        return 1;
    }
    return 0;
}

static int state_test_buffers(void) {
    unsigned char *const base = (unsigned char *)state_arena();
    int bad = 0;
    unsigned char *const kept = (unsigned char *)state_state();
    memset(base, 0xa5, STATE_ARENA_BYTES);
    memset(kept, 0xa5, STATE_STATE_BYTES);
    state_reset(kept);
    for (int run = 0; run < 3; ++run) {
        memset(base, 0xa5, STATE_ARENA_BYTES); /* what a run before has left */
        const void *const inputs[] = {NULL};
        void *const outputs[] = {state_test_got_0, state_test_got_1};
        memset(state_test_got_0, 0xa5, sizeof state_test_got_0);
        memset(state_test_got_1, 0xa5, sizeof state_test_got_1);
        bad |= state_run(base, kept, inputs, outputs) != 0;
        bad |= state_test_differs("output 0", run, state_test_got_0, state_test_want_0[run],
                STATE_OUTPUT_0_BYTES, sizeof **state_test_want_0);
        bad |= state_test_far("output 1", run, state_test_got_1, state_test_want_1[run],
                STATE_OUTPUT_1_BYTES);
    }
    return bad;
}

static int state_test_in_place(void) {
    unsigned char *const base = (unsigned char *)state_arena();
    int bad = 0;
    unsigned char *const kept = (unsigned char *)state_state();
    memset(base, 0x5a, STATE_ARENA_BYTES);
    memset(kept, 0x5a, STATE_STATE_BYTES);
    state_reset(kept);
    for (int run = 0; run < 3; ++run) {
        memset(base, 0x5a, STATE_ARENA_BYTES); /* what a run before has left */
        bad |= state_run_static(NULL, NULL) != 0;
        bad |= state_test_differs("output 0 in place", run, base + STATE_OUTPUT_0_OFFSET, state_test_want_0[run],
                STATE_OUTPUT_0_BYTES, sizeof **state_test_want_0);
        bad |= state_test_far("output 1 in place", run, base + STATE_OUTPUT_1_OFFSET, state_test_want_1[run],
                STATE_OUTPUT_1_BYTES);
    }
    return bad;
}

int main(void) {
    unsigned char *const base = (unsigned char *)state_arena();
    int bad = state_run(NULL, state_state(), NULL, NULL) != 1;
    bad |= state_run(base + 1, state_state(), NULL, NULL) != 2;
    bad |= state_test_buffers();
    bad |= state_test_in_place();
    printf("state: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
