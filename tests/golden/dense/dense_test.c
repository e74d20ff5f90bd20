/* dense: made by twinfer VERSION for target generic, model SHA-256 0000000000000000000000000000000000000000000000000000000000000000. Do not edit. */
#include "dense.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int8_t dense_test_input_0[6] = {
    -33, 2, 66, 89, 79, 107,
};
static const int8_t dense_test_want_0[6] = {
    9, 47, -3, 49, -3, 34,
};
static int8_t dense_test_got_0[6];
alignas(DENSE_ARENA_ALIGN) static unsigned char dense_test_arena[DENSE_ARENA_BYTES + 1];

/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int dense_test_differs(const char *what, const void *got, const void *want, size_t bytes, size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("dense: %s: element %lu, byte %lu: got 0x%02x, want 0x%02x\n", what, (unsigned long)(i / item),
                   (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}

int main(void) {
    int bad = 0;
    const void *const inputs[] = {dense_test_input_0};
    void *const outputs[] = {dense_test_got_0};
    unsigned char *const base = (unsigned char *)dense_arena();
    memset(dense_test_arena, 0xA5, sizeof dense_test_arena);
    memset(base, 0x5A, DENSE_ARENA_BYTES);
    bad |= dense_run(NULL, inputs, outputs) != 1;
    bad |= dense_run(dense_test_arena + 1, inputs, outputs) != 2;
    bad |= dense_run(dense_test_arena, inputs, outputs) != 0;
    bad |= dense_test_differs("output 0", dense_test_got_0, dense_test_want_0, DENSE_OUTPUT_0_BYTES, sizeof *dense_test_want_0);
    memcpy(base + DENSE_INPUT_0_OFFSET, inputs[0], DENSE_INPUT_0_BYTES);
    bad |= dense_run_static(NULL, NULL) != 0;
    bad |= dense_test_differs("output 0 in place", base + DENSE_OUTPUT_0_OFFSET, dense_test_want_0, DENSE_OUTPUT_0_BYTES, sizeof *dense_test_want_0);
    printf("dense: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
