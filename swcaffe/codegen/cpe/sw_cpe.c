#include "sw_cpe.h"

#include <slave.h>

#include "machine.h"

/* Register communication as the machine's instructions, unless a runtime brings its own. Targets
 * from 8 on are broadcasts. The assembler's spelling is that of published kernels, and was not tried
 * on the machine. */
#ifndef REG_PUTR
#include <dma.h>
#include <simd.h>
#define REG_PUTR(value, target) asm volatile("putr %0,%1" : : "r"(value), "r"(target))
#define REG_PUTC(value, target) asm volatile("putc %0,%1" : : "r"(value), "r"(target))
#define REG_GETR(value) asm volatile("getr %0" : "=r"(value))
#define REG_GETC(value) asm volatile("getc %0" : "=r"(value))
#define REG_LDDER(value, from) asm volatile("ldder %0,0(%1)" : "=r"(value) : "r"(from) : "memory")
#define REG_VLDC(value, from) asm volatile("vldc %0,0(%1)" : "=r"(value) : "r"(from) : "memory")
#endif

enum { WORD_BYTES = 4, BROADCAST = 8, LANES = SW_LANES, VECTORS = SW_TILE_N / SW_LANES };

/* DMA */

/* As few and long axes as possible: drop those of one element, join those without a gap. */
static int joined(int axes, sw_axis *axis) {
    int count = 0;
    for (int i = 0; i < axes; i++) {
        const sw_axis next = axis[i];
        if (next.size == 1) continue;
        const sw_axis last = count ? axis[count - 1] : (sw_axis){0, 0, 0};
        if (count && last.ldm == next.size * next.ldm && last.other == next.size * next.other)
            axis[count - 1] = (sw_axis){last.size * next.size, next.ldm, next.other};
        else
            axis[count++] = next;
    }
    return count;
}

/* One request for each index of the outer axes. */
static int issue(dma_desc *request, char *ldm, char *memory, int axes, const sw_axis *axis) {
    if (axes == 0) {
        dma(*request, memory, ldm);
        return 1;
    }
    int issued = 0;
    for (long i = 0; i < axis->size; i++)
        issued += issue(request, ldm + i * axis->ldm * WORD_BYTES,
                        memory + i * axis->other * WORD_BYTES, axes - 1, axis + 1);
    return issued;
}

/* A request takes blocks that are contiguous on both sides, evenly spaced in memory and without a
 * gap in the LDM: the innermost axis or two. */
static void copy(dma_desc *request, sw_reply *reply, void *ldm, void *memory, int axes,
                 sw_axis *axis) {
    for (int i = 0; i < axes; i++)
        if (axis[i].size == 0) return;
    axes = joined(axes, axis);
    long length = 1, blocks = 1, spacing = 1;
    if (axes && axis[axes - 1].ldm == 1 && axis[axes - 1].other == 1) length = axis[--axes].size;
    if (axes && axis[axes - 1].ldm == length) {
        blocks = axis[--axes].size;
        spacing = axis[axes].other;
    }
    dma_set_mode(request, PE_MODE);
    dma_set_size(request, (int)(WORD_BYTES * blocks * length));
    dma_set_bsize(request, blocks == 1 ? 0 : (int)(WORD_BYTES * length));
    dma_set_stepsize(request, blocks == 1 ? 0 : (int)(WORD_BYTES * (spacing - length)));
    dma_set_reply(request, &reply->word);
    reply->issued += issue(request, ldm, memory, axes, axis);
}

void sw_get(sw_reply *reply, void *ldm, const void *memory, int axes, sw_axis *axis) {
    dma_desc request;
    dma_set_op(&request, DMA_GET);
    copy(&request, reply, ldm, (void *)memory, axes, axis);
}

void sw_put(sw_reply *reply, const void *ldm, void *memory, int axes, sw_axis *axis) {
    dma_desc request;
    dma_set_op(&request, DMA_PUT);
    copy(&request, reply, (void *)ldm, memory, axes, axis);
}

void sw_wait(sw_reply *reply) {
    dma_wait(&reply->word, reply->issued);
    reply->word = 0;
    reply->issued = 0;
}

/* Messages */

static doublev4 *gather(doublev4 *message, const void *from, long at, long count, int is_double) {
    double *const lane = (double *)message;
    for (long i = 0; i < LANES; i++) {
        if (at + i >= count)
            lane[i] = 0;
        else
            lane[i] = is_double ? ((const double *)from)[at + i] : ((const float *)from)[at + i];
    }
    return message;
}

static void scatter(const doublev4 *message, void *to, long at, long count, int is_double) {
    const double *const lane = (const double *)message;
    for (long i = 0; i < LANES && at + i < count; i++) {
        if (is_double)
            ((double *)to)[at + i] = lane[i];
        else
            ((float *)to)[at + i] = (float)lane[i];
    }
}

void sw_send_row(const void *from, long count, int is_double) {
    doublev4 message;
    for (long at = 0; at < count; at += LANES)
        REG_PUTR(*gather(&message, from, at, count, is_double), BROADCAST);
}

void sw_send_col(const void *from, long count, int is_double) {
    doublev4 message;
    for (long at = 0; at < count; at += LANES)
        REG_PUTC(*gather(&message, from, at, count, is_double), BROADCAST);
}

void sw_recv_row(void *to, long count, int is_double) {
    doublev4 message;
    for (long at = 0; at < count; at += LANES) {
        REG_GETR(message);
        scatter(&message, to, at, count, is_double);
    }
}

void sw_recv_col(void *to, long count, int is_double) {
    doublev4 message;
    for (long at = 0; at < count; at += LANES) {
        REG_GETC(message);
        scatter(&message, to, at, count, is_double);
    }
}

/* Matrix product */

void sw_widen(double *to, const float *from, long rows, long cols, int transpose) {
    const long row_step = transpose ? 1 : cols, col_step = transpose ? rows : 1;
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < cols; j++) to[i * row_step + j * col_step] = from[i * cols + j];
}

typedef doublev4 accumulators[SW_TILE_M][VECTORS];

/* All k for one register tile. Whether this CPE sends or receives is constant where it is called,
 * so that the loop has no branches. */
static inline __attribute__((always_inline)) void steps(accumulators sum, const double *a,
                                                        const double *b, long k, long a_row,
                                                        long a_step, long b_step, int sends_a,
                                                        int sends_b) {
    for (; k > 0; k--, a += a_step, b += b_step) {
        doublev4 left[SW_TILE_M], right[VECTORS];
        for (int i = 0; i < SW_TILE_M; i++) {
            if (sends_a)
                REG_LDDER(left[i], a + i * a_row);
            else
                REG_GETR(left[i]);
        }
        for (int j = 0; j < VECTORS; j++) {
            if (sends_b)
                REG_VLDC(right[j], b + j * LANES);
            else
                REG_GETC(right[j]);
        }
        for (int i = 0; i < SW_TILE_M; i++)
            for (int j = 0; j < VECTORS; j++)
                sum[i][j] = simd_vmad(left[i], right[j], sum[i][j]);
    }
}

void sw_rlc_gemm(float *c, const double *a, const double *b, long m, long n, long k, long step,
                 int trans_a, int accumulate) {
    const int sends_a = athread_get_id(-1) % SW_COLS == step;
    const int sends_b = athread_get_id(-1) / SW_COLS == step;
    const long a_row = trans_a ? 1 : k, a_step = trans_a ? m : 1;
    double tile[SW_TILE_M][SW_TILE_N] __attribute__((aligned(32)));
    accumulators sum;
    for (long i0 = 0; i0 < m; i0 += SW_TILE_M) {
        for (long j0 = 0; j0 < n; j0 += SW_TILE_N) {
            const double *const left = a + i0 * a_row, *const right = b + j0;
            for (int i = 0; i < SW_TILE_M; i++) {
                for (int j = 0; j < SW_TILE_N; j++)
                    tile[i][j] = accumulate ? c[(i0 + i) * n + j0 + j] : 0.0;
                for (int j = 0; j < VECTORS; j++) simd_load(sum[i][j], tile[i] + j * LANES);
            }
            if (sends_a && sends_b)
                steps(sum, left, right, k, a_row, a_step, n, 1, 1);
            else if (sends_a)
                steps(sum, left, right, k, a_row, a_step, n, 1, 0);
            else if (sends_b)
                steps(sum, left, right, k, a_row, a_step, n, 0, 1);
            else
                steps(sum, left, right, k, a_row, a_step, n, 0, 0);
            for (int i = 0; i < SW_TILE_M; i++) {
                for (int j = 0; j < VECTORS; j++) simd_store(sum[i][j], tile[i] + j * LANES);
                for (int j = 0; j < SW_TILE_N; j++) c[(i0 + i) * n + j0 + j] = (float)tile[i][j];
            }
        }
    }
}

/* Elements */

void sw_zero(float *to, int axes, const sw_axis *axis) {
    for (long i = 0; i < axis->size; i++) {
        if (axes == 1)
            to[i * axis->ldm] = 0;
        else
            sw_zero(to + i * axis->ldm, axes - 1, axis + 1);
    }
}

void sw_zero_outside(float *to, int axes, const sw_axis *axis) {
    const sw_axis beyond = {axis->size - axis->other, axis->ldm, 0};
    for (long i = 0; axes > 1 && i < axis->other; i++)
        sw_zero_outside(to + i * axis->ldm, axes - 1, axis + 1);
    for (long i = 0; i < beyond.size; i++) {
        float *const slab = to + (axis->other + i) * axis->ldm;
        if (axes == 1)
            *slab = 0;
        else
            sw_zero(slab, axes - 1, axis + 1);
    }
}

void sw_add(float *to, const float *from, int axes, const sw_axis *axis) {
    for (long i = 0; i < axis->size; i++) {
        if (axes == 1)
            to[i * axis->ldm] += from[i * axis->other];
        else
            sw_add(to + i * axis->ldm, from + i * axis->other, axes - 1, axis + 1);
    }
}

void sw_broadcast(float *to, const float *from, long outer, long n, long inner) {
    for (long i = 0; i < outer; i++)
        for (long j = 0; j < n; j++)
            for (long x = 0; x < inner; x++) *to++ = from[j];
}

static double sum_on(double total, const float *from, int axes, const sw_axis *axis) {
    if (axes == 0) return total + *from;
    for (long i = 0; i < axis->size; i++)
        total = sum_on(total, from + i * axis->ldm, axes - 1, axis + 1);
    return total;
}

void sw_row_sum(float *to, const float *from, int axes, const sw_axis *axis) {
    for (long i = 0; i < axis->size; i++)
        to[i] = (float)sum_on(to[i], from + i * axis->ldm, axes - 1, axis + 1);
}

/* Windows */

void sw_im2col(float *matrix, const float *strip, const sw_axis *rows, const sw_axis *planes,
               const sw_windows *windows, long first) {
    const sw_windows w = *windows;
    const long taps = w.kernel[0] * w.kernel[1];
    for (long row = 0; row < rows[0].size; row++) {
        const long channel = (first + row) / taps, tap = (first + row) % taps;
        const long y0 = tap / w.kernel[1] * w.dilation[0] + w.shift[0];
        const long x0 = tap % w.kernel[1] * w.dilation[1] + w.shift[1];
        for (long image = 0; image < planes[1].size; image++) {
            const float *const plane = strip + channel * planes[0].ldm + image * planes[1].ldm;
            float *to = matrix + row * rows[0].ldm + image * rows[1].ldm;
            for (long oy = 0; oy < w.out[0]; oy++) {
                for (long ox = 0; ox < w.out[1]; ox++) {
                    const long y = oy * w.stride[0] + y0, x = ox * w.stride[1] + x0;
                    const int inside =
                        y >= 0 && y < planes[2].size && x >= 0 && x < planes[3].size;
                    *to++ = inside ? plane[y * planes[2].ldm + x] : 0;
                }
            }
        }
    }
}

/* The output whose tap stands `distance` behind its window's start, or -1. */
static long output_at(long distance, long stride, long outputs) {
    const int exists = distance >= 0 && distance % stride == 0 && distance / stride < outputs;
    return exists ? distance / stride : -1;
}

static float gathered(const float *matrix, long tap_step, long y, long x, const sw_windows *w) {
    double total = 0;
    for (long ky = 0; ky < w->kernel[0]; ky++) {
        const long oy = output_at(y - w->shift[0] - ky * w->dilation[0], w->stride[0], w->out[0]);
        for (long kx = 0; kx < w->kernel[1] && oy >= 0; kx++) {
            const long ox =
                output_at(x - w->shift[1] - kx * w->dilation[1], w->stride[1], w->out[1]);
            if (ox < 0) continue;
            total += matrix[(ky * w->kernel[1] + kx) * tap_step + oy * w->out[1] + ox];
        }
    }
    return (float)total;
}

void sw_col2im(float *strip, const float *matrix, const sw_axis *planes, const sw_axis *rows,
               const sw_windows *windows) {
    const long taps = windows->kernel[0] * windows->kernel[1];
    for (long channel = 0; channel < planes[0].size; channel++) {
        for (long image = 0; image < planes[1].size; image++) {
            const float *const from =
                matrix + channel * taps * rows[0].ldm + image * rows[1].ldm;
            float *const plane = strip + channel * planes[0].ldm + image * planes[1].ldm;
            for (long y = 0; y < planes[2].size; y++)
                for (long x = 0; x < planes[3].size; x++)
                    plane[y * planes[2].ldm + x] =
                        gathered(from, rows[0].ldm, y, x, windows);
        }
    }
}
