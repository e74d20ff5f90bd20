/* What this firmware asks of the emitted C: -DTW_CONFIG names this file. */
#ifndef CONFIG_H
#define CONFIG_H
#include <stdint.h>

/* Weights in a section of their own, which sections.ld places. */
#define TW_SECTION_WEIGHTS __attribute__((section(".model_weights")))

/* Before every layer: feeds the watchdog; not 0 cancels the run. */
int before_layer(int32_t layer);
#define TW_HOOK(layer) before_layer(layer)

#endif
