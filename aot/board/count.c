/* SPDX-License-Identifier: Apache-2.0 */
/* A QEMU plugin that counts executed instructions between marks: calls of the guest function at address "mark".
 *
 *     -plugin file=count.so,mark=0x1a4[,out=FILE][,pcs=FILE[,first=N]]
 *
 * out: one line a mark, the instructions executed before it. pcs: one line "address count" for every instruction that
 * was executed in the intervals between the first mark and the second, the third and the fourth, and so on; without
 * the first N intervals. Of the last instruction of a block the line has a third number: after how many of these
 * executions the next instruction was not the one behind it, so that a branch was taken.
 * QEMU's plugin interface is declared here as far as it is used, for distributions ship no header; this part of it is
 * the same in all versions, of which QEMU wants to be told one that it knows: API. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *),
                                          enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *),
                                            enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

extern int qemu_plugin_version;
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv);
int qemu_plugin_version = API;

/* A count over the whole run, at the begin of the interval, and within the counted intervals. */
typedef struct tally {
    uint64_t now, begin, counted;
} tally;

/* A translated block: its instructions, the address behind them, how often it ran, and how often it was left by a
 * branch. */
typedef struct block {
    struct block *next;
    tally runs, left;
    uint64_t end;
    size_t size;
    uint64_t address[];
} block;

static uint64_t executed, mark_address;
static unsigned marks, first;
static block *blocks, *last;
static FILE *out, *pcs;

static void keep(tally *t, int counted) {
    if (counted) t->counted += t->now - t->begin;
    t->begin = t->now;
}

static void at_mark(unsigned cpu, void *unused) {
    (void)cpu;
    (void)unused;
    if (out != NULL) fprintf(out, "%" PRIu64 "\n", executed);
    for (block *b = blocks; b != NULL; b = b->next) {
        const int counted = marks % 2 && marks / 2 >= first;
        keep(&b->runs, counted);
        keep(&b->left, counted);
    }
    ++marks;
}

static void at_block(unsigned cpu, void *run) {
    block *const b = run;
    (void)cpu;
    executed += b->size;
    ++b->runs.now;
    if (last != NULL && last->end != b->address[0]) ++last->left.now;
    last = b;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    const size_t size = qemu_plugin_tb_n_insns(tb);
    block *const b = calloc(1, sizeof *b + size * sizeof b->address[0]);
    if (b == NULL) abort();
    (void)id;
    b->next = blocks;
    b->size = size;
    blocks = b;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, at_block, QEMU_PLUGIN_CB_NO_REGS, b);
    for (size_t i = 0; i < size; ++i) {
        struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
        b->address[i] = qemu_plugin_insn_vaddr(insn);
        b->end = b->address[i] + qemu_plugin_insn_size(insn);
        if (b->address[i] != mark_address) continue;
        qemu_plugin_register_vcpu_insn_exec_cb(insn, at_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
}

static void finish(qemu_plugin_id_t id, void *unused) {
    (void)id;
    (void)unused;
    for (const block *b = pcs != NULL ? blocks : NULL; b != NULL; b = b->next) {
        for (size_t i = 0; b->runs.counted && i < b->size; ++i) {
            fprintf(pcs, "0x%" PRIx64 " %" PRIu64, b->address[i], b->runs.counted);
            if (i + 1 == b->size) fprintf(pcs, " %" PRIu64, b->left.counted);
            fputc('\n', pcs);
        }
    }
    if (out != NULL) fclose(out);
    if (pcs != NULL) fclose(pcs);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
                                                               int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; ++i) {
        if (strncmp(argv[i], "mark=", 5) == 0) mark_address = strtoull(argv[i] + 5, NULL, 0);
        if (strncmp(argv[i], "out=", 4) == 0) out = fopen(argv[i] + 4, "w");
        if (strncmp(argv[i], "pcs=", 4) == 0) pcs = fopen(argv[i] + 4, "w");
        if (strncmp(argv[i], "first=", 6) == 0) first = (unsigned)strtoul(argv[i] + 6, NULL, 0);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
