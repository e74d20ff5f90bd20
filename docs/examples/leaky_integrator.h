/* LeakyIntegrator: every channel's level follows its input, and forgets. */
#ifndef LEAKY_INTEGRATOR_H
#define LEAKY_INTEGRATOR_H

#include "../core/tw.h"

/* in: x [steps, channels] float32, leak [channels] float32, 0..1. out: y [steps, channels] float32, state [channels]
 * float32, the levels after the last step. */
typedef struct {
    int32_t steps, channels;
} leaky_integrator_f32_params;

TW_KERNEL(leaky_integrator_f32) {
    const leaky_integrator_f32_params p = *params;
    const float *x = (const float *)in[0], *leak = (const float *)in[1];
    float *y = (float *)out[0], *level = (float *)out[1];
    (void)scratch;
    for (int32_t step = 0; step < p.steps; ++step, x += p.channels, y += p.channels)
        for (int32_t c = 0; c < p.channels; ++c) y[c] = level[c] = leak[c] * level[c] + x[c];
}

#endif
