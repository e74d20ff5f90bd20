/* SPDX-License-Identifier: Apache-2.0 */
/* Semihosting: what the machine that emulates the board does for the program: a console, files and a way out. */
#ifndef TW_SEMIHOST_H
#define TW_SEMIHOST_H

#include <stddef.h>
#include <stdint.h>

enum { TW_READ_FILE = 1, TW_WRITE_FILE = 5 }; /* "rb", "wb" */

/* Prints text on the emulator's standard error. */
void tw_print(const char *text);

/* Ends the program; status is the emulator's exit status. */
_Noreturn void tw_exit(int status);

/* Opens a file of the emulator's working directory; -1 if it cannot. */
int32_t tw_open(const char *name, uint32_t mode);

/* Reads or writes size bytes; nonzero if it could not. */
int tw_read(int32_t file, void *to, size_t size);
int tw_write(int32_t file, const void *from, size_t size);

/* Asks the emulator for an operation: the architecture's own (start.c). Only boards without an operating system, whose
 * semihost.c and bare.c are common to all. */
int32_t tw_semihost(uint32_t operation, const void *block);

/* Sets up memory, runs main and ends the program: where start-up code goes when there is a stack. */
_Noreturn void tw_begin(void);

/* Prints a text and a number. */
void tw_print_hex(const char *what, uint32_t value);

#endif
