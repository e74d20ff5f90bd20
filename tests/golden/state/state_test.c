/* state: made by twinfer VERSION for target generic, model SHA-256 0000000000000000000000000000000000000000000000000000000000000000. Do not edit. */
#include "state.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int8_t state_test_want_0[6] = {
    -7, -7, -7, -7, -7, -7,
};
static const float state_test_want_1[5] = {
    0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
};
static int8_t state_test_got_0[6];
static float state_test_got_1[5];
alignas(STATE_ARENA_ALIGN) static unsigned char state_test_arena[STATE_ARENA_BYTES + 1];

/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int state_test_differs(const char *what, const void *got, const void *want, size_t bytes, size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("state: %s: element %lu, byte %lu: got 0x%02x, want 0x%02x\n", what, (unsigned long)(i / item),
                   (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}

int main(void) {
    int bad = 0;
    const void *const inputs[] = {NULL};
    void *const outputs[] = {state_test_got_0, state_test_got_1};
    unsigned char *const base = (unsigned char *)state_arena();
    memset(state_test_arena, 0xA5, sizeof state_test_arena);
    memset(base, 0x5A, STATE_ARENA_BYTES);
    state_reset(state_test_arena);
    state_reset(base);
    bad |= state_run(NULL, inputs, outputs) != 1;
    bad |= state_run(state_test_arena + 1, inputs, outputs) != 2;
    bad |= state_run(state_test_arena, inputs, outputs) != 0;
    bad |= state_test_differs("output 0", state_test_got_0, state_test_want_0, STATE_OUTPUT_0_BYTES, sizeof *state_test_want_0);
    bad |= state_test_differs("output 1", state_test_got_1, state_test_want_1, STATE_OUTPUT_1_BYTES, sizeof *state_test_want_1);
    bad |= state_run_static(NULL, NULL) != 0;
    bad |= state_test_differs("output 0 in place", base + STATE_OUTPUT_0_OFFSET, state_test_want_0, STATE_OUTPUT_0_BYTES, sizeof *state_test_want_0);
    bad |= state_test_differs("output 1 in place", base + STATE_OUTPUT_1_OFFSET, state_test_want_1, STATE_OUTPUT_1_BYTES, sizeof *state_test_want_1);
    printf("state: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
