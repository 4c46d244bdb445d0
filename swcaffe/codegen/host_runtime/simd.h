/* 256-bit vectors by GCC's vector extensions. Macros, since functions may not take or return
 * vectors wider than the host's registers. */
#ifndef HOST_SIMD_H
#define HOST_SIMD_H

typedef double doublev4 __attribute__((vector_size(32)));

#define simd_load(value, from) ((value) = *(const doublev4 *)(from))
#define simd_store(value, to) (*(doublev4 *)(to) = (value))
#define simd_vmad(a, b, c) ((a) * (b) + (c))

#endif
