/* The most that one core does here: multiply-accumulates of int8 and of float32 (rounded between), and bytes out of the
 * L2 cache, each in 10^9 a second. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif

typedef int32_t ints __attribute__((vector_size(BYTES)));
typedef float floats __attribute__((vector_size(BYTES)));

/* The compiler must take the value as a new one, in its register. */
#if defined(__x86_64__)
#define HIDE(value) __asm__ volatile("" : "+v"(value))
#else
#define HIDE(value) __asm__ volatile("" : "+w"(value))
#endif

/* Products of bytes added to sums, as the widest instructions do it; MACS of them at once. Pairs of products of bytes
 * saturate on AVX2. */
#if defined(__AVX512VNNI__)
#define MACS BYTES
static inline ints dot(ints sum, ints a, ints b) {
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
#elif defined(__AVXVNNI__)
#define MACS BYTES
static inline ints dot(ints sum, ints a, ints b) {
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
}
#elif defined(__AVX2__)
#define MACS BYTES
static inline ints dot(ints sum, ints a, ints b) {
    __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    return sum + (ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#elif defined(__SSE2__)
#define MACS (BYTES / 2)
static inline ints dot(ints sum, ints a, ints b) { return sum + (ints)_mm_madd_epi16((__m128i)a, (__m128i)b); }
#elif defined(__ARM_FEATURE_DOTPROD)
#define MACS BYTES
static inline ints dot(ints sum, ints a, ints b) { return (ints)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b); }
#else
#define MACS (BYTES / 4)
static inline ints dot(ints sum, ints a, ints b) { return sum + a * b; }
#endif

/* SUMS are added to in turn, so that no addition waits for the one before. */
enum { SUMS = 12, TURNS = 4096, TRIES = 40, CACHED = 192 * 1024 };

static double multiply_int8(void) {
    ints sums[SUMS] = {0}, a = {1}, b = {1};
    for (int turn = 0; turn < TURNS; turn++) {
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            HIDE(a);
            sums[i] = dot(sums[i], a, b);
        }
    }
    for (int i = 0; i < SUMS; i++) HIDE(sums[i]);
    return (double)TURNS * SUMS * MACS;
}

static double multiply_float32(void) {
    floats sums[SUMS] = {0}, a = {1}, b = {1};
    for (int turn = 0; turn < TURNS; turn++) {
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            HIDE(a);
            sums[i] += a * b;
        }
    }
    for (int i = 0; i < SUMS; i++) HIDE(sums[i]);
    return (double)TURNS * SUMS * (BYTES / 4);
}

/* CACHED bytes do not fit into L1 and fit into L2. */
static double read_l2(void) {
    static ints data[CACHED / BYTES];
    ints sums[4] = {0};
    for (int turn = 0; turn < 8; turn++) {
        __asm__ volatile("" : "+m"(data)); /* the bytes may be other ones */
        for (int at = 0; at < CACHED / BYTES; at += 4) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                ints value = data[at + i];
                HIDE(value);
                sums[i] += value;
            }
        }
    }
    for (int i = 0; i < 4; i++) HIDE(sums[i]);
    return 8.0 * CACHED;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The best rate of several tries. */
static double rate(double (*work)(void)) {
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        double start = seconds(), done = work(), took = seconds() - start;
        if (done > best * took) best = done / took;
    }
    return best * 1e-9;
}

int main(void) {
    printf("%.1f %.1f %.1f\n", rate(multiply_int8), rate(multiply_float32), rate(read_l2));
    return 0;
}
