/* SPDX-License-Identifier: Apache-2.0 */
/* What picolibc's printf asks for: a console, which is QEMU's. */
#include <stdio.h>

#include "semihost.h"

static int put(char c, FILE *file) {
    const char one[] = {c, 0};
    (void)file;
    tw_print(one);
    return c;
}

static FILE console = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdout = &console;
