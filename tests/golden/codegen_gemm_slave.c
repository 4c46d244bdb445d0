#include <math.h>
#include <slave.h>

#include "machine.h"
#include "sw_cpe.h"

#include "gemm.h"

void gemm_cpe(void *argument);

void gemm_cpe(void *argument) {
    const gemm_args args = *(const gemm_args *)argument;
    const long ROW = athread_get_id(-1) / SW_COLS, COL = athread_get_id(-1) % SW_COLS;
    char *const ldm = ldm_malloc(1600);
    (void)ROW, (void)COL;
    const float *const a = args.a;
    const float *const b = args.b;
    const float *const bias = args.bias;
    float *const c = args.c;
    sw_reply c_reply[1] = {{0, 0}};
    sw_reply ab_reply[2] = {{0, 0}};
    /* iterations are independent */
    for (long i = 0; i < 1; i++) {
        float *const C = (float *)(ldm + 0);
        float *const A = (float *)(ldm + 256);
        float *const B = (float *)(ldm + 384);
        double *const wide_A = (double *)(ldm + 896);
        double *const wide_B = (double *)(ldm + 1024);
        float *const bias2 = (float *)(ldm + 1536);
        sw_get(&c_reply[0], bias2, bias + 16*COL, 1, (sw_axis[]){{16, 1, 1}});
        sw_wait(&c_reply[0]);
        sw_broadcast(C, bias2, 4, 16, 1);
        sw_get(&ab_reply[0], A, a + 4*COL + 160*ROW + 320*i, 2, (sw_axis[]){{4, 4, 40}, {4, 1, 1}});
        sw_get(&ab_reply[0], B, b + 640*COL + 4*ROW, 2, (sw_axis[]){{16, 4, 40}, {4, 1, 1}});
        sw_get(&ab_reply[1], A + 16, a + 4*COL + 160*ROW + 320*i + 8, 2, (sw_axis[]){{4, 4, 40},
            {4, 1, 1}});
        sw_get(&ab_reply[1], B + 64, b + 640*COL + 4*ROW + 8, 2, (sw_axis[]){{16, 4, 40}, {4, 1, 1}});
        sw_wait(&ab_reply[0]);
        {
            sw_widen(wide_A, A, 4, 4, 0);
            sw_widen(wide_B, B, 16, 4, 1);
            for (long t = 0; t < 2; t++) {
                sw_rlc_gemm(C, wide_A, wide_B, 4, 16, 4, t, 0, 1);
            }
        }
        for (long k = 0; k < 2; k++) {
            sw_get(&ab_reply[(k + 2) % 2], A + (k + 2) % 2 * 16, a + 4*COL + 160*ROW + 320*i + 8*k + 16, 2,
                (sw_axis[]){{4, 4, 40}, {4, 1, 1}});
            sw_get(&ab_reply[(k + 2) % 2], B + (k + 2) % 2 * 64, b + 640*COL + 4*ROW + 8*k + 16, 2,
                (sw_axis[]){{16, 4, 40}, {4, 1, 1}});
            sw_wait(&ab_reply[(k + 1) % 2]);
            {
                sw_widen(wide_A, A + (k + 1) % 2 * 16, 4, 4, 0);
                sw_widen(wide_B, B + (k + 1) % 2 * 64, 16, 4, 1);
                for (long t = 0; t < 2; t++) {
                    sw_rlc_gemm(C, wide_A, wide_B, 4, 16, 4, t, 0, 1);
                }
            }
        }
        sw_get(&ab_reply[0], A, a + 4*COL + 160*ROW + 320*i + 32, 2, (sw_axis[]){{4, 4, 40},
            {4, 1, 1}});
        sw_get(&ab_reply[0], B, b + 640*COL + 4*ROW + 32, 2, (sw_axis[]){{16, 4, 40}, {4, 1, 1}});
        sw_wait(&ab_reply[1]);
        {
            sw_widen(wide_A, A + 16, 4, 4, 0);
            sw_widen(wide_B, B + 64, 16, 4, 1);
            for (long t = 0; t < 2; t++) {
                sw_rlc_gemm(C, wide_A, wide_B, 4, 16, 4, t, 0, 1);
            }
        }
        sw_wait(&ab_reply[0]);
        {
            sw_widen(wide_A, A, 4, 4, 0);
            sw_widen(wide_B, B, 16, 4, 1);
            for (long t = 0; t < 2; t++) {
                sw_rlc_gemm(C, wide_A, wide_B, 4, 16, 4, t, 0, 1);
            }
        }
        sw_put(&c_reply[0], C, c + 16*COL + 128*ROW + 256*i, 2, (sw_axis[]){{4, 16, 32}, {16, 1, 1}});
        sw_wait(&c_reply[0]);
    }
    ldm_free(ldm, 1600);
}
