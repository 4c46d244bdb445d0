/* The programs of this directory, by name. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <stddef.h>

/* Arrays of elements of four bytes; counts[i] elements each, and whether it is written. */
typedef struct {
    const char *name;
    int (*run)(void *const *arrays);
    int arrays;
    const size_t *counts;
    const char *written;
} sw_program;

extern const sw_program sw_programs[];
extern const int sw_program_count;

#endif
