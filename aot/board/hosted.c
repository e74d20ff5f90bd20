/* SPDX-License-Identifier: Apache-2.0 */
/* What the harness asks of a board, had of an operating system with POSIX's files. The stack is not measured. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "semihost.h"

void tw_print(const char *text) { fputs(text, stderr); }
_Noreturn void tw_exit(int status) { exit(status); }

int32_t tw_open(const char *name, uint32_t mode) {
    return open(name, mode == TW_READ_FILE ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
}

int tw_read(int32_t file, void *to, size_t size) { return size != 0 && read(file, to, size) != (ssize_t)size; }
int tw_write(int32_t file, const void *from, size_t size) { return write(file, from, size) != (ssize_t)size; }

void tw_start_clock(void) {}
void tw_paint(void) {}
uint32_t tw_unpainted(void) { return 0; }
