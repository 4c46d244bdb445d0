/* gemm on 2 x 2 CPEs. */
#ifndef GEMM_H
#define GEMM_H

typedef struct {
    const float *a; /* 8 x 40 */
    const float *b; /* 32 x 40 */
    const float *bias; /* 32 */
    float *c; /* 8 x 32 */
    float *scratch;
} gemm_args;

/* Run on one core group; 0, or an error number if there is no memory for scratch. */
int run_gemm(const float *a, const float *b, const float *bias, float *c);

#endif
