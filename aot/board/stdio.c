/* SPDX-License-Identifier: Apache-2.0 */
/* What newlib's printf asks for: a console, which is QEMU's, a little memory for its buffer, and a way out. */
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "semihost.h"

/* With -flto only newlib calls these, which the compiler does not see. */
#define KEPT __attribute__((used))
KEPT int _write(int file, const char *text, int size);
KEPT void *_sbrk(ptrdiff_t size);
KEPT int _fstat(int file, struct stat *about);
KEPT int _isatty(int file);
KEPT int _close(int file);
KEPT int _lseek(int file, int offset, int whence);
KEPT int _read(int file, char *to, int size);
KEPT int _kill(int process, int signal);
KEPT int _getpid(void);
KEPT _Noreturn void _exit(int status);

int _write(int file, const char *text, int size) {
    (void)file;
    for (int i = 0; i < size; ++i) {
        const char one[] = {text[i], 0};
        tw_print(one);
    }
    return size;
}

/* The RAM that is left, from link.ld: a small board may have less than the buffer takes, and printf does without. */
void *_sbrk(ptrdiff_t size) {
    extern unsigned char tw_heap[], tw_heap_end[];
    static ptrdiff_t used;
    if (size < 0 || size > tw_heap_end - tw_heap - used) return (void *)-1;
    used += size;
    return tw_heap + used - size;
}

int _fstat(int file, struct stat *about) {
    (void)file;
    memset(about, 0, sizeof *about);
    about->st_mode = S_IFCHR;
    return 0;
}

int _isatty(int file) { return file >= 0; }
int _close(int file) { return file < 0 ? -1 : 0; }

int _lseek(int file, int offset, int whence) {
    (void)file;
    (void)offset;
    (void)whence;
    return 0;
}

int _read(int file, char *to, int size) {
    (void)file;
    (void)to;
    (void)size;
    return 0;
}

int _getpid(void) { return 1; }
_Noreturn void _exit(int status) { tw_exit(status); }

int _kill(int process, int signal) {
    (void)process;
    tw_exit(signal);
}
