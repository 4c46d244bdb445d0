#include <athread.h>
#include <stdlib.h>

#include "conv.h"

extern void SLAVE_FUN(conv_cpe)(void *);

int run_conv(const float *src, const float *weights, const float *bias, float *dst) {
    void *scratch = NULL;
    const int error = posix_memalign(&scratch, 128, 8704);
    if (error) return error;
    conv_args args = {src, weights, bias, dst, scratch};
    athread_spawn(conv_cpe, &args);
    athread_join();
    free(scratch);
    return 0;
}
