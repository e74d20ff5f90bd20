/* SPDX-License-Identifier: Apache-2.0 AND LicenseRef-model */
/* passing: made by twinfer VERSION for target host. Do not edit. */
#include "passing.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int8_t passing_test_input_0[1][30] = {
    {
        -33, 2, 66, 89, 79, 107, -113, 35, -95, 87, 89, 2, 120, 61, -112, -59, 56, 104, 77, -50, 41, -67, -3, -118,
        -99, 112, -62, -109, 54, -89,
    },
};
static const int8_t passing_test_want_0[1][30] = {
    {
        -33, 2, 66, 89, 79, 107, -113, 35, -95, 87, 89, 2, 120, 61, -112, -59, 56, 104, 77, -50, 41, -67, -3, -118,
        -99, 112, -62, -109, 54, -89,
    },
};
static const float passing_test_want_1[1][9] = {
    {
        __builtin_nanf("0x0"), -__builtin_nanf("0x1"), __builtin_nansf("0x1"), __builtin_inff(), -__builtin_inff(),
        -0.0f, 1.40129846e-45f, 3.40282347e+38f, 0.100000001f,
    },
};
static const int8_t passing_test_want_2[1][30] = {
    {
        -33, 2, 66, 89, 79, 107, -113, 35, -95, 87, 89, 2, 120, 61, -112, -59, 56, 104, 77, -50, 41, -67, -3, -118,
        -99, 112, -62, -109, 54, -89,
    },
};
static const float passing_test_want_3[1][9] = {
    {
        __builtin_nanf("0x0"), -__builtin_nanf("0x1"), __builtin_nansf("0x1"), __builtin_inff(), -__builtin_inff(),
        -0.0f, 1.40129846e-45f, 3.40282347e+38f, 0.100000001f,
    },
};
static int8_t passing_test_got_0[30];
static float passing_test_got_1[9];
static int8_t passing_test_got_2[30];
static float passing_test_got_3[9];

/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int passing_test_differs(const char *what, int run, const void *got, const void *want, size_t bytes,
                             size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("passing: %s: run %d, element %lu, byte %lu: got 0x%02x, want 0x%02x\n", what, run,
                   (unsigned long)(i / item), (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}


/* Compares floats, each within 1e-05 of the largest magnitude there is, and says where the first is that differs by
 * more: 1 if there is one, else 0. One NaN is as good as another. */
static int passing_test_far(const char *what, int run, const void *got, const float *want, size_t bytes) {
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
        printf("passing: %s: run %d, element %lu: got %.9g, want %.9g\n", what, run, (unsigned long)i, (double)g,
               (double)w);
        return 1;
    }
    return 0;
}

static int passing_test_buffers(void) {
    unsigned char *const base = (unsigned char *)passing_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0xa5, PASSING_ARENA_BYTES); /* what a run before has left */
        const void *const inputs[] = {passing_test_input_0[run]};
        void *const outputs[] = {passing_test_got_0, passing_test_got_1, passing_test_got_2, passing_test_got_3};
        memset(passing_test_got_0, 0xa5, sizeof passing_test_got_0);
        memset(passing_test_got_1, 0xa5, sizeof passing_test_got_1);
        memset(passing_test_got_2, 0xa5, sizeof passing_test_got_2);
        memset(passing_test_got_3, 0xa5, sizeof passing_test_got_3);
        bad |= passing_run(base, inputs, outputs) != 0;
        bad |= passing_test_differs("output 0", run, passing_test_got_0, passing_test_want_0[run],
                PASSING_OUTPUT_0_BYTES, sizeof **passing_test_want_0);
        bad |= passing_test_far("output 1", run, passing_test_got_1, passing_test_want_1[run],
                PASSING_OUTPUT_1_BYTES);
        bad |= passing_test_differs("output 2", run, passing_test_got_2, passing_test_want_2[run],
                PASSING_OUTPUT_2_BYTES, sizeof **passing_test_want_2);
        bad |= passing_test_far("output 3", run, passing_test_got_3, passing_test_want_3[run],
                PASSING_OUTPUT_3_BYTES);
    }
    return bad;
}

static int passing_test_in_place(void) {
    unsigned char *const base = (unsigned char *)passing_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0x5a, PASSING_ARENA_BYTES); /* what a run before has left */
        memcpy(base + PASSING_INPUT_0_OFFSET, passing_test_input_0[run], PASSING_INPUT_0_BYTES);
        bad |= passing_run_static(NULL, NULL) != 0;
        bad |= passing_test_differs("output 0 in place", run, base + PASSING_OUTPUT_0_OFFSET, passing_test_want_0[run],
                PASSING_OUTPUT_0_BYTES, sizeof **passing_test_want_0);
        bad |= passing_test_far("output 1 in place", run, base + PASSING_OUTPUT_1_OFFSET, passing_test_want_1[run],
                PASSING_OUTPUT_1_BYTES);
        bad |= passing_test_differs("output 2 in place", run, base + PASSING_OUTPUT_2_OFFSET, passing_test_want_2[run],
                PASSING_OUTPUT_2_BYTES, sizeof **passing_test_want_2);
    }
    return bad;
}

int main(void) {
    unsigned char *const base = (unsigned char *)passing_arena();
    int bad = passing_run(NULL, NULL, NULL) != 1;
    bad |= passing_run(base + 1, NULL, NULL) != 2;
    bad |= passing_test_buffers();
    bad |= passing_test_in_place();
    printf("passing: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
