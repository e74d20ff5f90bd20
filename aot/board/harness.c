/* SPDX-License-Identifier: Apache-2.0 */
/* Does the jobs in inputs.bin one after the other and writes what they give to outputs.bin.
 *
 * inputs.bin: uint32 clock, then jobs to the end of the file: uint32 model, uint32 how, the bytes of every input.
 * outputs.bin: for every job int32 status of the run, uint32 bytes of stack that it took or 0, every output's bytes.
 *
 * What is counted lies between two calls of tw_mark: by QEMU's plugin, which watches for its address, or, if clock is
 * set, by the board's clock, whose value every mark then writes to ticks.bin as uint64. The first three intervals gauge
 * that: the two ways of calling a function that does nothing, and a loop of 2,000,002 instructions. */
#include "harness.h"

#include <stddef.h>
#include <string.h>

#include "semihost.h"

enum { FRESH = 1, BY_STEP = 2, PAINT = 4 }; /* how: from a new state, with one interval a step, on painted stack */

static int32_t ticks_file = -1;

void tw_mark(void);
__attribute__((noinline, used)) void tw_mark(void) {
    if (ticks_file < 0) return;
    const uint64_t now = tw_clock();
    tw_write(ticks_file, &now, sizeof now);
}

static __attribute__((noinline)) int count_run(tw_run_fn *run) {
    tw_mark();
    const int status = run(tw_arena, NULL, NULL);
    tw_mark();
    return status;
}

static __attribute__((noinline)) void count_step(tw_step_fn *step) {
    tw_mark();
    step(tw_arena);
    tw_mark();
}

/* How deep a run writes the stack, from the call on. */
static __attribute__((noinline)) uint32_t stack_run(tw_run_fn *run, int32_t *status) {
    tw_paint();
    *status = run(tw_arena, NULL, NULL);
    const uint32_t bytes = tw_unpainted();
    __asm__ volatile("" : : : "memory"); /* or the call above becomes a jump, from another depth */
    return bytes;
}

static _Noreturn void fail(const char *what) {
    tw_print(what);
    tw_exit(98);
}

static void fill(const tw_span *spans, uint32_t count, int byte) {
    for (uint32_t i = 0; i < count; ++i) memset(spans[i].at, byte & 0xFF, spans[i].bytes);
}

static void load(const tw_model *model, int32_t file) {
    for (uint32_t i = 0; i < model->input_count; ++i) {
        if (tw_read(file, model->inputs[i].at, model->inputs[i].bytes)) fail("inputs.bin is too short\n");
    }
}

static void save(const tw_model *model, int32_t status, uint32_t stack, int32_t file) {
    int bad = tw_write(file, &status, sizeof status) | tw_write(file, &stack, sizeof stack);
    for (uint32_t i = 0; i < model->output_count; ++i) {
        bad |= tw_write(file, model->outputs[i].at, model->outputs[i].bytes);
    }
    if (bad) fail("cannot write outputs.bin\n");
}

static int32_t work(const tw_model *model, uint32_t how) {
    if ((how & BY_STEP) == 0) return count_run(model->run);
    for (uint32_t i = 0; i < model->step_count; ++i) count_step(model->steps[i]);
    return 0;
}

int main(void) {
    const int32_t inputs = tw_open("inputs.bin", TW_READ_FILE), outputs = tw_open("outputs.bin", TW_WRITE_FILE);
    uint32_t clock, job[2]; /* model, how */
    int rubbish = 0x5A;     /* what fills memory without a value: another byte in every job */
    if (inputs < 0 || outputs < 0 || tw_read(inputs, &clock, sizeof clock)) fail("no inputs.bin or outputs.bin\n");
    if (clock) {
        ticks_file = tw_open("ticks.bin", TW_WRITE_FILE);
        tw_start_clock();
    }
    count_run(tw_nothing);
    count_step(tw_no_step);
    count_run(tw_loop);
    while (tw_read(inputs, job, sizeof job) == 0) {
        if (job[0] >= tw_model_count) fail("no such model\n");
        const tw_model *const model = &tw_models[job[0]];
        rubbish = ~rubbish;
        if (job[1] & FRESH) {
            fill(model->memory, model->memory_count, rubbish); /* nothing may lean on zeroed memory */
            if (model->reset != NULL) model->reset(tw_arena);
        }
        fill(model->perishable, model->perishable_count, rubbish); /* or a skipped step goes unseen */
        load(model, inputs);
        int32_t status;
        uint32_t stack = 0;
        if (job[1] & PAINT) {
            stack = stack_run(model->run, &status);
        } else {
            status = work(model, job[1]);
        }
        save(model, status, stack, outputs);
    }
    return 0;
}
