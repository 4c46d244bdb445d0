/* Run one program on raw arrays in files: ./run NAME FILE..., one file an array, in order. Arrays
 * that the program writes are read first, and written back. */
#include <athread.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"

enum { WORD_BYTES = 4, LINE_BYTES = 128 };

static FILE *open_or_die(const char *path, const char *mode) {
    FILE *const file = fopen(path, mode);
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static void *read_array(const char *path, size_t count) {
    void *array = NULL;
    if (posix_memalign(&array, LINE_BYTES, (count + !count) * WORD_BYTES) != 0) {
        fprintf(stderr, "%s: no memory for %zu elements\n", path, count);
        exit(1);
    }
    FILE *const file = open_or_die(path, "rb");
    const size_t found = fread(array, WORD_BYTES, count, file);
    if (found != count || fgetc(file) != EOF) {
        fprintf(stderr, "%s: not %zu elements of %d bytes\n", path, count, WORD_BYTES);
        exit(1);
    }
    fclose(file);
    return array;
}

static void write_array(const char *path, const void *array, size_t count) {
    FILE *const file = open_or_die(path, "wb");
    const size_t written = fwrite(array, WORD_BYTES, count, file);
    if (fclose(file) != 0 || written != count) {
        perror(path);
        exit(1);
    }
}

static int run(const sw_program *program, char **paths) {
    void **const arrays = malloc((size_t)program->arrays * sizeof *arrays);
    if (arrays == NULL) return 1;
    for (int i = 0; i < program->arrays; i++)
        arrays[i] = read_array(paths[i], program->counts[i]);
    athread_init();
    const int error = program->run(arrays);
    athread_halt();
    for (int i = 0; i < program->arrays; i++) {
        if (!error && program->written[i] == 'w')
            write_array(paths[i], arrays[i], program->counts[i]);
        free(arrays[i]);
    }
    free(arrays);
    return error != 0;
}

int main(int count, char **words) {
    for (int i = 0; i < sw_program_count; i++) {
        const sw_program *const program = &sw_programs[i];
        if (count > 1 && strcmp(words[1], program->name) == 0 && count - 2 == program->arrays)
            return run(program, words + 2);
    }
    fprintf(stderr, "usage: %s NAME FILE...\n", words[0]);
    for (int i = 0; i < sw_program_count; i++)
        fprintf(stderr, "  %s  %d files\n", sw_programs[i].name, sw_programs[i].arrays);
    return 2;
}
