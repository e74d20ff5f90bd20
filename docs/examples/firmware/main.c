/* One firmware with all that docs/firmware.md describes: two models in one arena, run layer by layer and with a hook;
 * weights in a section of their own; weights that an update replaces; weights that come page by page. */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "models/models.h"
#include "paged/paged.h"
#include "update/update.h"
#include "update/update_data.h"

/* Models take turns in one memory. */
static union {
    digits_int8_arena_t digits;
    ad01_int8_arena_t ad01;
    update_arena_t update;
    paged_arena_t paged;
} arena;

static int8_t image[DIGITS_INT8_INPUT_0_SIZE], scores[DIGITS_INT8_OUTPUT_0_SIZE];
static int8_t sound[AD01_INT8_INPUT_0_SIZE], rebuilt[AD01_INT8_OUTPUT_0_SIZE];

static void show(const char *what, const int8_t *values, int count) {
    printf("%s", what);
    for (int i = 0; i < count; ++i) printf(" %d", values[i]);
    printf("\n");
}

/* -- the hook: a watchdog is fed, and a run can be cancelled ------------------------------------------------------ */

static int fed, cancel_at = -1;

int before_layer(int32_t layer) {
    ++fed;
    return layer == cancel_at;
}

/* -- a slow memory: a fetch only begins what wait ends ------------------------------------------------------------ */

extern const unsigned char slow_memory[];
static struct {
    void *to;
    uint32_t from, bytes, total;
} transfer;

void paged_fetch(void *to, uint32_t from, uint32_t bytes) {
    transfer.to = to;
    transfer.from = from;
    transfer.bytes = bytes;
    transfer.total += bytes;
    memset(to, 0x55, bytes); /* who reads before wait reads this */
}

void paged_wait(void) {
    if (transfer.bytes != 0) memcpy(transfer.to, slow_memory + transfer.from, transfer.bytes);
    transfer.bytes = 0;
}

/* -- the parts ----------------------------------------------------------------------------------------------------- */

/* A scheduler that must not wait for a whole run: one layer, then the others' turn. */
static int cooperative(void) {
    memcpy(arena.digits.bytes + DIGITS_INT8_INPUT_0_OFFSET, image, sizeof image);
    int turns = 0;
    for (int32_t i = 0; i < DIGITS_INT8_LAYER_COUNT; ++i, ++turns) {
        const int status = digits_int8_run_layers(&arena, i, i + 1);
        if (status != TW_OK) return status;
    }
    memcpy(scores, arena.digits.bytes + DIGITS_INT8_OUTPUT_0_OFFSET, sizeof scores);
    show("cooperative", scores, DIGITS_INT8_OUTPUT_0_SIZE);
    return TW_OK;
}

static int hooked(void) {
    fed = 0;
    const int status = ad01_int8_run_1(&arena.ad01, sound, rebuilt);
    if (status != TW_OK) return status;
    show("hooked", rebuilt, AD01_INT8_OUTPUT_0_SIZE);
    printf("fed %s\n", fed > 0 ? "yes" : "no");
    cancel_at = AD01_INT8_LAYER_COUNT - 1;
    printf("cancelled: %s\n", tw_status_text(ad01_int8_run_1(&arena.ad01, sound, rebuilt)));
    cancel_at = -1;
    return TW_OK;
}

/* The weights that the program came with, then others, if they are whole and for this code. */
static int updated(void) {
    extern const unsigned char new_weights[];
    static unsigned char damaged[UPDATE_WEIGHTS_BYTES] __attribute__((aligned(UPDATE_WEIGHTS_ALIGN)));
    int status = update_run_1(&arena.update, update_weights, image, scores);
    if (status != TW_OK) return status;
    show("factory", scores, UPDATE_OUTPUT_0_SIZE);
    memcpy(damaged, new_weights, sizeof damaged);
    damaged[sizeof damaged / 2] ^= 1;
    printf("damaged: %s\n", tw_status_text(update_check(damaged)));
    if (update_check(new_weights) != TW_OK) return TW_BAD_WEIGHTS;
    status = update_run_1(&arena.update, new_weights, image, scores);
    show("updated", scores, UPDATE_OUTPUT_0_SIZE);
    return status;
}

static int by_pages(void) {
    const int whole = paged_check(&arena);
    if (whole != TW_OK) return whole;
    transfer.total = 0;
    const int status = paged_run_1(&arena.paged, sound, rebuilt);
    show("paged", rebuilt, PAGED_OUTPUT_0_SIZE);
    printf("fetched %s\n", transfer.total == PAGED_FETCHED_BYTES ? "as stated" : "otherwise");
    return status;
}

int main(void) {
    extern const unsigned char weights_begin[], weights_end[];
    for (unsigned i = 0; i < sizeof image; ++i) image[i] = (int8_t)(i * 37);
    for (unsigned i = 0; i < sizeof sound; ++i) sound[i] = (int8_t)(i * 73);
    printf("weights %s\n", weights_end - weights_begin > AD01_INT8_CONSTANT_BYTES / 2 ? "in their section" : "elsewhere");
    int (*const parts[])(void) = {cooperative, hooked, updated, by_pages};
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; ++i) {
        const int status = parts[i]();
        if (status != TW_OK) {
            printf("part %u: %s\n", i, tw_status_text(status));
            return 1;
        }
    }
    printf("done\n");
    return 0;
}
