/* SPDX-License-Identifier: Apache-2.0 */
/* SIMD128 of WebAssembly, around what clang makes of it. */
#ifndef TW_SIMD128_H
#define TW_SIMD128_H

#include <wasm_simd128.h>

#include "../../core/tw.h"

/* Four bytes in every lane. clang 14 lets its own instruction for that, load32_splat, sink below a store to the same
 * bytes: FULLY_CONNECTED of one input and two rows read the second row twice. */
TW_INLINE v128_t tw_four128(const void *p) {
    const v128_t four = wasm_v128_load32_zero(p);
    return wasm_i32x4_shuffle(four, four, 0, 0, 0, 0);
}

/* The same by that instruction, which is faster; loads of the same bytes stay apart. */
TW_INLINE v128_t tw_four_once128(const void *p) {
    v128_t four = wasm_v128_load32_splat(p);
    __asm__ volatile("" : "+r"(four) : : "memory");
    return four;
}

/* Products of the lower or upper two lanes, of 64 bits. To clang extmul is a product of two extensions: it extends m
 * before a loop where it can, and in the loop multiplies 64 bits by 64, four times as long. */
TW_INLINE v128_t tw_extmul_low128(v128_t x, v128_t m) {
    __asm__ volatile("" : "+r"(m));
    return wasm_i64x2_extmul_low_i32x4(x, m);
}

TW_INLINE v128_t tw_extmul_high128(v128_t x, v128_t m) {
    __asm__ volatile("" : "+r"(m));
    return wasm_i64x2_extmul_high_i32x4(x, m);
}

#endif
