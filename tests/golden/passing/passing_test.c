/* passing: made by twinfer VERSION for target host, model SHA-256 0000000000000000000000000000000000000000000000000000000000000000. Do not edit. */
#include "passing.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const int8_t passing_test_input_0[30] = {
    -33, 2, 66, 89, 79, 107, -113, 35, -95, 87, 89, 2, 120, 61, -112, -59, 56, 104, 77, -50, 41, -67, -3, -118, -99,
    112, -62, -109, 54, -89,
};
static const int8_t passing_test_want_0[30] = {
    -33, 2, 66, 89, 79, 107, -113, 35, -95, 87, 89, 2, 120, 61, -112, -59, 56, 104, 77, -50, 41, -67, -3, -118, -99,
    112, -62, -109, 54, -89,
};
static const float passing_test_want_1[9] = {
    __builtin_nanf("0x0"), -__builtin_nanf("0x1"), __builtin_nansf("0x1"), __builtin_inff(), -__builtin_inff(),
    -0.0f, 1.40129846e-45f, 3.40282347e+38f, 0.100000001f,
};
static const int8_t passing_test_want_2[30] = {
    -33, 2, 66, 89, 79, 107, -113, 35, -95, 87, 89, 2, 120, 61, -112, -59, 56, 104, 77, -50, 41, -67, -3, -118, -99,
    112, -62, -109, 54, -89,
};
static const float passing_test_want_3[9] = {
    __builtin_nanf("0x0"), -__builtin_nanf("0x1"), __builtin_nansf("0x1"), __builtin_inff(), -__builtin_inff(),
    -0.0f, 1.40129846e-45f, 3.40282347e+38f, 0.100000001f,
};
static int8_t passing_test_got_0[30];
static float passing_test_got_1[9];
static int8_t passing_test_got_2[30];
static float passing_test_got_3[9];
alignas(PASSING_ARENA_ALIGN) static unsigned char passing_test_arena[PASSING_ARENA_BYTES + 1];

/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int passing_test_differs(const char *what, const void *got, const void *want, size_t bytes, size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("passing: %s: element %lu, byte %lu: got 0x%02x, want 0x%02x\n", what, (unsigned long)(i / item),
                   (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}

int main(void) {
    int bad = 0;
    const void *const inputs[] = {passing_test_input_0};
    void *const outputs[] = {passing_test_got_0, passing_test_got_1, passing_test_got_2, passing_test_got_3};
    unsigned char *const base = (unsigned char *)passing_arena();
    memset(passing_test_arena, 0xA5, sizeof passing_test_arena);
    memset(base, 0x5A, PASSING_ARENA_BYTES);
    bad |= passing_run(NULL, inputs, outputs) != 1;
    bad |= passing_run(passing_test_arena + 1, inputs, outputs) != 2;
    bad |= passing_run(passing_test_arena, inputs, outputs) != 0;
    bad |= passing_test_differs("output 0", passing_test_got_0, passing_test_want_0, PASSING_OUTPUT_0_BYTES, sizeof *passing_test_want_0);
    bad |= passing_test_differs("output 1", passing_test_got_1, passing_test_want_1, PASSING_OUTPUT_1_BYTES, sizeof *passing_test_want_1);
    bad |= passing_test_differs("output 2", passing_test_got_2, passing_test_want_2, PASSING_OUTPUT_2_BYTES, sizeof *passing_test_want_2);
    bad |= passing_test_differs("output 3", passing_test_got_3, passing_test_want_3, PASSING_OUTPUT_3_BYTES, sizeof *passing_test_want_3);
    memcpy(base + PASSING_INPUT_0_OFFSET, inputs[0], PASSING_INPUT_0_BYTES);
    bad |= passing_run_static(NULL, NULL) != 0;
    bad |= passing_test_differs("output 0 in place", base + PASSING_OUTPUT_0_OFFSET, passing_test_want_0, PASSING_OUTPUT_0_BYTES, sizeof *passing_test_want_0);
    bad |= passing_test_differs("output 1 in place", base + PASSING_OUTPUT_1_OFFSET, passing_test_want_1, PASSING_OUTPUT_1_BYTES, sizeof *passing_test_want_1);
    bad |= passing_test_differs("output 2 in place", base + PASSING_OUTPUT_2_OFFSET, passing_test_want_2, PASSING_OUTPUT_2_BYTES, sizeof *passing_test_want_2);
    printf("passing: %s\n", bad ? "FAILED" : "ok");
    return bad != 0;
}
