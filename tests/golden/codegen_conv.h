/* conv_forward_im2col on 2 x 2 CPEs. */
#ifndef CONV_H
#define CONV_H

typedef struct {
    const float *src; /* 4 x 1 x 3 x 6 x 7 */
    const float *weights; /* 1 x 5 x 27 */
    const float *bias; /* 5 */
    float *dst; /* 4 x 1 x 5 x 20 */
    float *scratch;
} conv_args;

/* Run on one core group; 0, or an error number if there is no memory for scratch. */
int run_conv(const float *src, const float *weights, const float *bias, float *dst);

#endif
