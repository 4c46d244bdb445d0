/* What a CPE's programs call: copies of boxes by DMA, messages, and one function for each primitive.
 *
 * A box is a row of axes, outermost first; `sw_axis` holds an axis's size and two numbers that each
 * function explains. Nothing here keeps state. */
#ifndef SW_CPE_H
#define SW_CPE_H

typedef struct {
    long size, ldm, other;
} sw_axis;

/* A reply word, and how many requests will answer to it. */
typedef struct {
    volatile int word;
    int issued;
} sw_reply;

/* Windows of an image strip: rows, columns. shift is the strip position of output 0, tap 0. */
typedef struct {
    long out[2], kernel[2], stride[2], dilation[2], shift[2];
} sw_windows;

/* Windows of image strips for pooling: `first` is the image row of the strip's row 0, shift the strip
 * position where the window of output 0 starts, size that of the whole image. */
typedef struct {
    long kernel[2], stride[2], pad[2], size[2], shift[2], first;
} sw_pool;

static inline long sw_clamp(long value, long high) {
    return value < 0 ? 0 : value > high ? high : value;
}

static inline long sw_mod(long value, long modulus) {
    return (value % modulus + modulus) % modulus;
}

static inline float sw_max(float a, float b) {
    return a > b || a != a ? a : b; /* NaN stays */
}

static inline float sw_min(float a, float b) {
    return a < b || a != a ? a : b;
}

/* Start a copy of elements of four bytes; axes are size, LDM stride, memory stride, in elements.
 * They are changed. */
void sw_get(sw_reply *reply, void *ldm, const void *memory, int axes, sw_axis *axis);
void sw_put(sw_reply *reply, const void *ldm, void *memory, int axes, sw_axis *axis);
/* Wait for all copies with this reply, and clear it. */
void sw_wait(sw_reply *reply);

/* Broadcast `count` numbers to the other CPEs of a row or column, four a message; and receive. */
void sw_send_row(const void *from, long count, int is_double);
void sw_send_col(const void *from, long count, int is_double);
void sw_recv_row(void *to, long count, int is_double);
void sw_recv_col(void *to, long count, int is_double);

/* to = from (rows, cols) as doubles, transposed on request. */
void sw_widen(double *to, const float *from, long rows, long cols, int transpose);

/* C (m, n) += A B, or = without accumulate: column `step` of the mesh sends A along its rows, row
 * `step` sends B along its columns. A is (m, k), or (k, m) with trans_a; B is (k, n). */
void sw_rlc_gemm(float *c, const double *a, const double *b, long m, long n, long k, long step,
                 int trans_a, int accumulate);

/* to = 0; axes are size, stride, unused. */
void sw_zero(float *to, int axes, const sw_axis *axis);
/* to = 0 outside a box at its origin; axes are size, stride, size of the box. */
void sw_zero_outside(float *to, int axes, const sw_axis *axis);
/* to += from; axes are size, strides of both. */
void sw_add(float *to, const float *from, int axes, const sw_axis *axis);
/* to (outer, n, inner) = from (n). */
void sw_broadcast(float *to, const float *from, long outer, long n, long inner);
/* to[i] += sum of from[i, ...]; axes are size, stride, unused, the first is that of `to`. */
void sw_row_sum(float *to, const float *from, int axes, const sw_axis *axis);

/* matrix (rows, images, positions) = windows of the strip (channels, images, rows, cols), zero in
 * the padding. `first` is the row of the whole matrix that is row 0 here. For both, axes are size
 * and stride. */
void sw_im2col(float *matrix, const float *strip, const sw_axis *rows, const sw_axis *planes,
               const sw_windows *windows, long first);
/* strip = sum of the matrix elements that read it, in order of taps. */
void sw_col2im(float *strip, const float *matrix, const sw_axis *planes, const sw_axis *rows,
               const sw_windows *windows);

/* Pooling of (planes, rows, cols). Axes are size and stride; those of outputs with a place for each,
 * row * width + column or -1, also have the stride of the second output operand. */
void sw_max_pool(float *dst, int *index, const float *src, const sw_axis *outputs,
                 const sw_axis *image, const sw_pool *pool);
void sw_max_pool_gradient(float *diff_src, const int *index, const float *diff_dst,
                          const sw_axis *image, const sw_axis *outputs, const sw_pool *pool);
void sw_ave_pool(float *dst, const float *src, const sw_axis *outputs, const sw_axis *image,
                 const sw_pool *pool);
void sw_ave_pool_gradient(float *diff_src, const float *diff_dst, const sw_axis *image,
                          const sw_axis *outputs, const sw_pool *pool);

#endif
