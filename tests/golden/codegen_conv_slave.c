#include <math.h>
#include <slave.h>

#include "machine.h"
#include "sw_cpe.h"

#include "conv.h"

void conv_cpe(void *argument);

void conv_cpe(void *argument) {
    const conv_args args = *(const conv_args *)argument;
    const long ROW = athread_get_id(-1) / SW_COLS, COL = athread_get_id(-1) % SW_COLS;
    char *const ldm = ldm_malloc(9536);
    (void)ROW, (void)COL;
    const float *const src = args.src;
    const float *const weights = args.weights;
    const float *const bias = args.bias;
    float *const dst = args.dst;
    sw_reply src_reply[1] = {{0, 0}};
    sw_reply columns_reply[1] = {{0, 0}};
    sw_reply c_reply[1] = {{0, 0}};
    sw_reply ab_reply[1] = {{0, 0}};
    /* iterations are independent */
    for (long n = 0; n < 1; n++) {
        float *const col = args.scratch + 0;
        {
            {
                float *const strip = (float *)(ldm + 0);
                float *const columns = (float *)(ldm + 672);
                sw_get(&src_reply[0], strip, src + 252*COL + 84*ROW + 504*n, 4,
                    (sw_axis[]){{sw_clamp(-2*ROW + 3, 2), 84, 42}, {2, 42, 126}, {6, 7, 7}, {7, 1, 1}});
                sw_wait(&src_reply[0]);
                sw_im2col(columns, strip, (sw_axis[]){{sw_clamp(-18*ROW + 27, 18), 40, 0}, {2, 20, 0},
                    {20, 1, 0}}, (sw_axis[]){{sw_clamp(-2*ROW + 3, 2), 84, 0}, {2, 42, 0}, {6, 7, 0}, {7, 1, 0}},
                    &(sw_windows){{4, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}}, 0);
                sw_put(&columns_reply[0], columns, col + 40*COL + 1440*ROW, 3,
                    (sw_axis[]){{sw_clamp(-18*ROW + 27, 18), 40, 80}, {2, 20, 20}, {20, 1, 1}});
                sw_wait(&columns_reply[0]);
            }
            {
                float *const C = (float *)(ldm + 0);
                float *const A = (float *)(ldm + 768);
                float *const B = (float *)(ldm + 992);
                double *const wide_A = (double *)(ldm + 3680);
                double *const wide_B = (double *)(ldm + 4128);
                float *const bias2 = (float *)(ldm + 9504);
                sw_zero_outside(bias2, 1, (sw_axis[]){{4, 1, sw_clamp(-4*ROW + 5, 4)}});
                sw_get(&c_reply[0], bias2, bias + 4*ROW, 1, (sw_axis[]){{sw_clamp(-4*ROW + 5, 4), 1, 1}});
                sw_wait(&c_reply[0]);
                sw_broadcast(C, bias2, 1, 4, 48);
                sw_zero_outside(A, 2, (sw_axis[]){{4, 14, sw_clamp(-4*ROW + 5, 4)},
                    {14, 1, sw_clamp(-14*COL + 27, 14)}});
                sw_get(&ab_reply[0], A, weights + 14*COL + 108*ROW, 2,
                    (sw_axis[]){{sw_clamp(-4*ROW + 5, 4), 14, 27}, {sw_clamp(-14*COL + 27, 14), 1, 1}});
                sw_zero_outside(B, 3, (sw_axis[]){{14, 48, sw_clamp(-14*ROW + 27, 14)}, {2, 24, 2},
                    {24, 1, 20}});
                athread_syn(ARRAY_SCOPE, 0xffff);
                sw_get(&ab_reply[0], B, col + 40*COL + 1120*ROW, 3,
                    (sw_axis[]){{sw_clamp(-14*ROW + 27, 14), 48, 80}, {2, 24, 20}, {20, 1, 1}});
                sw_wait(&ab_reply[0]);
                {
                    sw_widen(wide_A, A, 4, 14, 0);
                    sw_widen(wide_B, B, 14, 48, 0);
                    for (long t = 0; t < 2; t++) {
                        sw_rlc_gemm(C, wide_A, wide_B, 4, 48, 14, t, 0, 1);
                    }
                }
                sw_put(&c_reply[0], C, dst + 200*COL + 80*ROW + 400*n, 3,
                    (sw_axis[]){{sw_clamp(-4*ROW + 5, 4), 48, 20}, {2, 24, 100}, {20, 1, 1}});
                sw_wait(&c_reply[0]);
            }
        }
    }
    ldm_free(ldm, 9536);
}
