/* SPDX-License-Identifier: Apache-2.0 AND LicenseRef-model */
/* rows: made by twinfer VERSION for target generic, interpreted, memory by rows. Do not edit. */
#include "rows.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const float rows_test_input_0[1][60] = {
    {
        0.125730217f, -0.132104859f, 0.640422642f, 0.104900114f, -0.535669386f, 0.361595064f, 1.30400002f,
        0.94708097f, -0.703735232f, -1.26542151f, -0.623274446f, 0.0413259789f, -2.3250308f, -0.218791664f,
        -1.245911f, -0.73226738f, -0.544259012f, -0.316300154f, 0.411630541f, 1.04251337f, -0.12853466f, 1.36646342f,
        -0.66519469f, 0.351510078f, 0.903470159f, 0.0940122977f, -0.743499279f, -0.921725392f, -0.457725823f,
        0.22019513f, -1.00961816f, -0.209175572f, -0.159225017f, 0.540845573f, 0.214659125f, 0.355372697f,
        -0.653828621f, -0.129613638f, 0.783975482f, 1.49343109f, -1.25906551f, 1.51392376f, 1.34587538f,
        0.781311393f, 0.264455616f, -0.313922822f, 1.45802069f, 1.96025836f, 1.80163491f, 1.31510377f, 0.35738042f,
        -1.20831859f, -0.0044541331f, 0.656474948f, -1.28836143f, 0.395122051f, 0.429863691f, 0.696042717f,
        -1.18411791f, -0.661702573f,
    },
};
static const float rows_test_want_0[1][80] = {
    {
        5.73349142f, -5.4014225f, 9.45144653f, 3.77527785f, 5.73349142f, 4.24063683f, 10.3171358f, 12.3850775f,
        23.6039581f, 5.52295113f, 10.3171358f, 12.3776951f, 23.6039581f, 6.78779602f, 3.51639199f, 9.99217224f,
        3.83061624f, -0.985372245f, 8.93955135f, 7.79342318f, 7.39017057f, 5.44266748f, 8.26205158f, 13.5332899f,
        20.7400761f, 4.38228941f, 9.39699745f, 10.2525797f, 20.7400761f, 5.73615074f, 5.48902273f, 8.76875019f,
        5.72742319f, 2.2010138f, 7.58064079f, 11.1165161f, 9.04684925f, 6.17835855f, 6.20696688f, 12.5118208f,
        17.8761959f, 2.98029399f, 8.47685909f, 9.23110962f, 17.8761959f, 4.33415604f, 7.46165276f, 10.0721712f,
        7.62423134f, 4.67345667f, 6.80841637f, 11.8960714f, 7.46351576f, 4.56780529f, 4.9168334f, 18.6203251f,
        9.55729008f, 3.36585355f, 7.18672514f, 15.3445358f, 13.1325302f, 3.87648582f, 6.75697088f, 13.8224363f,
        11.423914f, 3.08682132f, 6.25474453f, 9.92924976f, 5.84350872f, 2.92834377f, 5.29930878f, 20.0156288f,
        6.82977819f, 3.99829817f, 7.0017271f, 20.0156288f, 12.1926403f, 3.99829817f, 5.41831446f, 17.5726986f,
    },
};
static float rows_test_got_0[80];

/* Compares floats, each within 1e-05 of the largest magnitude there is, and says where the first is that differs by
 * more: 1 if there is one, else 0. One NaN is as good as another. */
static int rows_test_far(const char *what, int run, const void *got, const float *want, size_t bytes) {
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
        printf("rows: %s: run %d, element %lu: got %.9g, want %.9g\n", what, run, (unsigned long)i, (double)g,
               (double)w);
        return 1;
    }
    return 0;
}

static int rows_test_buffers(void) {
    unsigned char *const base = (unsigned char *)rows_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0xa5, ROWS_ARENA_BYTES); /* what a run before has left */
        const void *const inputs[] = {rows_test_input_0[run]};
        void *const outputs[] = {rows_test_got_0};
        memset(rows_test_got_0, 0xa5, sizeof rows_test_got_0);
        bad |= rows_run(base, inputs, outputs) != 0;
        bad |= rows_test_far("output 0", run, rows_test_got_0, rows_test_want_0[run],
                ROWS_OUTPUT_0_BYTES);
    }
    return bad;
}

static int rows_test_in_place(void) {
    unsigned char *const base = (unsigned char *)rows_arena();
    int bad = 0;
    for (int run = 0; run < 1; ++run) {
        memset(base, 0x5a, ROWS_ARENA_BYTES); /* what a run before has left */
        memcpy(base + ROWS_INPUT_0_OFFSET, rows_test_input_0[run], ROWS_INPUT_0_BYTES);
        bad |= rows_run_static(NULL, NULL) != 0;
        bad |= rows_test_far("output 0 in place", run, base + ROWS_OUTPUT_0_OFFSET, rows_test_want_0[run],
                ROWS_OUTPUT_0_BYTES);
    }
    return bad;
}

int main(void) {
    unsigned char *const base = (unsigned char *)rows_arena();
    int bad = rows_run(NULL, NULL, NULL) != 1;
    bad |= rows_run(base + 1, NULL, NULL) != 2;
    bad |= rows_test_buffers();
    bad |= rows_test_in_place();
    printf("rows: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
