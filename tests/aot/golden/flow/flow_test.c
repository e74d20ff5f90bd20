/* SPDX-License-Identifier: Apache-2.0 AND LicenseRef-model */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#include "flow.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const float flow_test_input_0[3][2] = {
    {
        0.125730217f, -0.132104859f,
    },
    {
        0.345584184f, 0.82161814f,
    },
    {
        0.189053386f, -0.52274847f,
    },
};
static const uint8_t flow_test_input_1[3][1] = {
    {
        0,
    },
    {
        0,
    },
    {
        0,
    },
};
static const float flow_test_want_0[3][2] = {
    {
        0.00198755413f, -0.00922181457f,
    },
    {
        0.0412725769f, 2.21855402f,
    },
    {
        0.00675699208f, -0.571397424f,
    },
};
static const float flow_test_want_1[3][2] = {
    {
        0.0158080868f, 0.0349033885f,
    },
    {
        0.119428426f, 1.35011268f,
    },
    {
        0.0357411839f, 0.546531916f,
    },
};
static float flow_test_got_0[2];
static float flow_test_got_1[2];

/* Compares floats, each within 1e-05 of the largest magnitude there is, and says where the first is that differs by
 * more: 1 if there is one, else 0. One NaN is as good as another. */
static int flow_test_far(const char *what, int run, const void *got, const float *want, size_t bytes) {
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
        printf("flow: %s: run %d, element %lu: got %.9g, want %.9g\n", what, run, (unsigned long)i, (double)g,
               (double)w);
        return 1;
    }
    return 0;
}

static int flow_test_buffers(void) {
    unsigned char *const base = (unsigned char *)flow_arena();
    int bad = 0;
    unsigned char *const kept = (unsigned char *)flow_state();
    memset(base, 0xa5, FLOW_ARENA_BYTES);
    memset(kept, 0xa5, FLOW_STATE_BYTES);
    flow_reset(kept);
    for (int run = 0; run < 3; ++run) {
        memset(base, 0xa5, FLOW_ARENA_BYTES); /* what a run before has left */
        const void *const inputs[] = {flow_test_input_0[run], flow_test_input_1[run]};
        void *const outputs[] = {flow_test_got_0, flow_test_got_1};
        memset(flow_test_got_0, 0xa5, sizeof flow_test_got_0);
        memset(flow_test_got_1, 0xa5, sizeof flow_test_got_1);
        bad |= flow_run(base, kept, inputs, outputs) != 0;
        bad |= flow_test_far("output 0", run, flow_test_got_0, flow_test_want_0[run],
                FLOW_OUTPUT_0_BYTES);
        bad |= flow_test_far("output 1", run, flow_test_got_1, flow_test_want_1[run],
                FLOW_OUTPUT_1_BYTES);
    }
    return bad;
}

static int flow_test_in_place(void) {
    unsigned char *const base = (unsigned char *)flow_arena();
    int bad = 0;
    unsigned char *const kept = (unsigned char *)flow_state();
    memset(base, 0x5a, FLOW_ARENA_BYTES);
    memset(kept, 0x5a, FLOW_STATE_BYTES);
    flow_reset(kept);
    for (int run = 0; run < 3; ++run) {
        memset(base, 0x5a, FLOW_ARENA_BYTES); /* what a run before has left */
        memcpy(base + FLOW_INPUT_0_OFFSET, flow_test_input_0[run], FLOW_INPUT_0_BYTES);
        memcpy(base + FLOW_INPUT_1_OFFSET, flow_test_input_1[run], FLOW_INPUT_1_BYTES);
        bad |= flow_run_static(NULL, NULL) != 0;
        bad |= flow_test_far("output 0 in place", run, base + FLOW_OUTPUT_0_OFFSET, flow_test_want_0[run],
                FLOW_OUTPUT_0_BYTES);
        bad |= flow_test_far("output 1 in place", run, base + FLOW_OUTPUT_1_OFFSET, flow_test_want_1[run],
                FLOW_OUTPUT_1_BYTES);
    }
    return bad;
}

int main(void) {
    unsigned char *const base = (unsigned char *)flow_arena();
    int bad = flow_run(NULL, flow_state(), NULL, NULL) != 1;
    bad |= flow_run(base + 1, flow_state(), NULL, NULL) != 2;
    bad |= flow_test_buffers();
    bad |= flow_test_in_place();
    printf("flow: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
