/* SPDX-License-Identifier: Apache-2.0 AND LicenseRef-model */
/* conv: made by twinfer VERSION for target host. Do not edit. */
#include "conv.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const float conv_test_input_0[1][32] = {
    {
        0.125730217f, -0.132104859f, 0.640422642f, 0.104900114f, -0.535669386f, 0.361595064f, 1.30400002f,
        0.94708097f, -0.703735232f, -1.26542151f, -0.623274446f, 0.0413259789f, -2.3250308f, -0.218791664f,
        -1.245911f, -0.73226738f, -0.544259012f, -0.316300154f, 0.411630541f, 1.04251337f, -0.12853466f, 1.36646342f,
        -0.66519469f, 0.351510078f, 0.903470159f, 0.0940122977f, -0.743499279f, -0.921725392f, -0.457725823f,
        0.22019513f, -1.00961816f, -0.209175572f,
    },
};
static const float conv_test_want_0[1][12] = {
    {
        0.0f, 3.43829346f, 3.42984676f, 0.0f, 0.300162554f, 1.12525547f, 0.0f, 0.0f, 0.477757722f, 0.0f, 0.0f,
        2.28725648f,
    },
};
static float conv_test_got_0[12];

/* Compares floats, each within 1e-05 of the largest magnitude there is, and says where the first is that differs by
 * more: 1 if there is one, else 0. One NaN is as good as another. */
static int conv_test_far(const char *what, int run, const void *got, const float *want, size_t bytes) {
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
        printf("conv: %s: run %d, element %lu: got %.9g, want %.9g\n", what, run, (unsigned long)i, (double)g,
               (double)w);
        return 1;
    }
    return 0;
}

static int conv_test_buffers(void) {
    unsigned char *const base = (unsigned char *)conv_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0xa5, CONV_ARENA_BYTES); /* what a run before has left */
        const void *const inputs[] = {conv_test_input_0[run]};
        void *const outputs[] = {conv_test_got_0};
        memset(conv_test_got_0, 0xa5, sizeof conv_test_got_0);
        bad |= conv_run(base, inputs, outputs) != 0;
        bad |= conv_test_far("output 0", run, conv_test_got_0, conv_test_want_0[run],
                CONV_OUTPUT_0_BYTES);
    }
    return bad;
}

static int conv_test_in_place(void) {
    unsigned char *const base = (unsigned char *)conv_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0x5a, CONV_ARENA_BYTES); /* what a run before has left */
        memcpy(base + CONV_INPUT_0_OFFSET, conv_test_input_0[run], CONV_INPUT_0_BYTES);
        bad |= conv_run_static(NULL, NULL) != 0;
        bad |= conv_test_far("output 0 in place", run, base + CONV_OUTPUT_0_OFFSET, conv_test_want_0[run],
                CONV_OUTPUT_0_BYTES);
    }
    return bad;
}

int main(void) {
    unsigned char *const base = (unsigned char *)conv_arena();
    int bad = conv_run(NULL, NULL, NULL) != 1;
    bad |= conv_run(base + 1, NULL, NULL) != 2;
    bad |= conv_test_buffers();
    bad |= conv_test_in_place();
    printf("conv: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
