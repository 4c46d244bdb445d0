#include <athread.h>
#include <stdlib.h>

#include "gemm.h"

extern void SLAVE_FUN(gemm_cpe)(void *);

int run_gemm(const float *a, const float *b, const float *bias, float *c) {
    gemm_args args = {a, b, bias, c, NULL};
    athread_spawn(gemm_cpe, &args);
    athread_join();
    return 0;
}
