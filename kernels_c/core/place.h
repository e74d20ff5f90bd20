/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may say of its models before it compiles them: where code and data lie, and what runs between layers.
 * Define these macros with -D, or in a header of yours with -DTW_CONFIG='"my_config.h"'. Without them nothing changes.
 *
 * A section is an attribute, such as __attribute__((section(".itcm"))). Every model has macros of its own, which begin
 * with its name in capitals and are these by default: KWS_SECTION_WEIGHTS, KWS_HOOK. */
#ifndef TW_PLACE_H
#define TW_PLACE_H

#ifdef TW_CONFIG
#include TW_CONFIG
#endif

/* Weights and biases. */
#ifndef TW_SECTION_WEIGHTS
#define TW_SECTION_WEIGHTS
#endif
/* Multipliers, shifts, look-up tables, params. */
#ifndef TW_SECTION_TABLES
#define TW_SECTION_TABLES
#endif
/* The functions of the model: its layers, the kernels that they share, and those that callers see. */
#ifndef TW_SECTION_CODE
#define TW_SECTION_CODE
#endif
/* The functions that kernels call, which all models share. */
#ifndef TW_SECTION_KERNELS
#define TW_SECTION_KERNELS TW_SECTION_CODE
#endif
/* Code and constants of hot layers: those with a macro such as KWS_HOT_3, for layer 3, that is 1. A kernel that layers
 * share is hot by KWS_HOT_tw_conv2d_s8. */
#ifndef TW_SECTION_HOT_CODE
#define TW_SECTION_HOT_CODE TW_SECTION_CODE
#endif
#ifndef TW_SECTION_HOT_WEIGHTS
#define TW_SECTION_HOT_WEIGHTS TW_SECTION_WEIGHTS
#endif
#ifndef TW_SECTION_HOT_TABLES
#define TW_SECTION_HOT_TABLES TW_SECTION_TABLES
#endif
/* The static memory of NAME_static.c. */
#ifndef TW_SECTION_ARENA
#define TW_SECTION_ARENA
#endif
#ifndef TW_SECTION_STATE
#define TW_SECTION_STATE
#endif

/* What is evaluated before every layer, of a number that counts from 0; where it is not 0, the run returns TW_CANCELLED. */
#ifndef TW_HOOK
#define TW_HOOK(layer) 0
#endif

/* yes if the macro hot is 1, no if it is not defined: TW_HOT_1 makes yes the third of the arguments. */
#define TW_IF_HOT(hot, yes, no) TW_IF_HOT_(hot, yes, no)
#define TW_IF_HOT_(hot, yes, no) TW_IF_HOT__(TW_HOT_##hot, yes, no, )
#define TW_IF_HOT__(...) TW_THIRD(__VA_ARGS__)
#define TW_THIRD(a, b, c, ...) c
#define TW_HOT_1 ,

#endif
