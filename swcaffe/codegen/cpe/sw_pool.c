#include "sw_cpe.h"

#include <float.h>

/* A window along one axis: the part inside a strip of `extent`, and its length as a mean counts it,
 * clipped to the padded image. */
typedef struct {
    long low, high, length;
} window;

static window window_at(const sw_pool *pool, int axis, long output, long extent) {
    const long start = output * pool->stride[axis] + pool->shift[axis];
    const long end = start + pool->kernel[axis], place = start + (axis == 0 ? pool->first : 0);
    const long border = pool->size[axis] + pool->pad[axis] - place;
    const window w = {start < 0 ? 0 : start, end < extent ? end : extent,
                      pool->kernel[axis] < border ? pool->kernel[axis] : border};
    return w;
}

void sw_max_pool(float *dst, int *index, const float *src, const sw_axis *outputs,
                 const sw_axis *image, const sw_pool *pool) {
    for (long p = 0; p < outputs[0].size; p++) {
        const float *const plane = src + p * image[0].ldm;
        for (long oy = 0; oy < outputs[1].size; oy++) {
            const window rows = window_at(pool, 0, oy, image[1].size);
            for (long ox = 0; ox < outputs[2].size; ox++) {
                const window cols = window_at(pool, 1, ox, image[2].size);
                float most = -FLT_MAX;
                long place = -1;
                for (long y = rows.low; y < rows.high; y++) {
                    for (long x = cols.low; x < cols.high; x++) {
                        const float value = plane[y * image[1].ldm + x];
                        if (!(value > most)) continue;
                        most = value;
                        place = (pool->first + y) * pool->size[1] + x;
                    }
                }
                dst[p * outputs[0].ldm + oy * outputs[1].ldm + ox] = most;
                index[p * outputs[0].other + oy * outputs[1].other + ox] = (int)place;
            }
        }
    }
}

void sw_max_pool_gradient(float *diff_src, const int *index, const float *diff_dst,
                          const sw_axis *image, const sw_axis *outputs, const sw_pool *pool) {
    const long width = image[2].size;
    sw_zero(diff_src, 3, image);
    for (long p = 0; p < outputs[0].size; p++) {
        for (long oy = 0; oy < outputs[1].size; oy++) {
            for (long ox = 0; ox < outputs[2].size; ox++) {
                const long place = index[p * outputs[0].ldm + oy * outputs[1].ldm + ox];
                const long here = place - pool->first * width;
                if (place < 0 || here < 0 || here >= image[1].size * width) continue;
                diff_src[p * image[0].ldm + here / width * image[1].ldm + here % width] +=
                    diff_dst[p * outputs[0].other + oy * outputs[1].other + ox];
            }
        }
    }
}

void sw_ave_pool(float *dst, const float *src, const sw_axis *outputs, const sw_axis *image,
                 const sw_pool *pool) {
    for (long p = 0; p < outputs[0].size; p++) {
        for (long oy = 0; oy < outputs[1].size; oy++) {
            const window rows = window_at(pool, 0, oy, image[1].size);
            for (long ox = 0; ox < outputs[2].size; ox++) {
                const window cols = window_at(pool, 1, ox, image[2].size);
                float total = 0;
                for (long y = rows.low; y < rows.high; y++)
                    for (long x = cols.low; x < cols.high; x++)
                        total += src[p * image[0].ldm + y * image[1].ldm + x];
                dst[p * outputs[0].ldm + oy * outputs[1].ldm + ox] =
                    total / (float)(rows.length * cols.length);
            }
        }
    }
}

void sw_ave_pool_gradient(float *diff_src, const float *diff_dst, const sw_axis *image,
                          const sw_axis *outputs, const sw_pool *pool) {
    sw_zero(diff_src, 3, image);
    for (long p = 0; p < outputs[0].size; p++) {
        for (long oy = 0; oy < outputs[1].size; oy++) {
            const window rows = window_at(pool, 0, oy, image[1].size);
            for (long ox = 0; ox < outputs[2].size; ox++) {
                const window cols = window_at(pool, 1, ox, image[2].size);
                const float share = diff_dst[p * outputs[0].ldm + oy * outputs[1].ldm + ox] /
                                    (float)(rows.length * cols.length);
                for (long y = rows.low; y < rows.high; y++)
                    for (long x = cols.low; x < cols.high; x++)
                        diff_src[p * image[0].ldm + y * image[1].ldm + x] += share;
            }
        }
    }
}
