/* A CPE's side of athread, on the host: its number, its LDM, DMA, register communication.
 *
 * Whatever would be undefined on the machine, or would wait for ever, ends the process with a line
 * that names the CPE. */
#ifndef HOST_SLAVE_H
#define HOST_SLAVE_H

#include <simd.h>

/* Number of the CPE that asks, row by row. */
int athread_get_id(int core);

/* Wait for all CPEs; the mask must name all, and the scope can be no smaller here. */
typedef enum { ARRAY_SCOPE } host_scope;
int athread_syn(host_scope scope, int mask);

/* A piece of this CPE's LDM, undefined and aligned to a vector; pieces are freed last first. */
void *ldm_malloc(int bytes);
void ldm_free(void *piece, int bytes);

typedef enum { PE_MODE } dma_mode;
typedef enum { DMA_GET, DMA_PUT } dma_operation;
typedef struct {
    dma_operation operation;
    dma_mode mode;
    int size, bsize, stepsize;
    volatile int *reply;
} dma_desc;

#define dma_set_op(descriptor, value) ((descriptor)->operation = (value))
#define dma_set_mode(descriptor, value) ((descriptor)->mode = (value))
#define dma_set_size(descriptor, value) ((descriptor)->size = (value))
#define dma_set_bsize(descriptor, value) ((descriptor)->bsize = (value))
#define dma_set_stepsize(descriptor, value) ((descriptor)->stepsize = (value))
#define dma_set_reply(descriptor, value) ((descriptor)->reply = (value))
#define dma(descriptor, memory, ldm) host_dma(&(descriptor), memory, ldm)

/* Issue a request: blocks of bsize bytes, or one of size bytes if bsize is 0, contiguous in the LDM
 * and stepsize bytes apart in memory. It is carried out when its reply is awaited, as late as the
 * machine may: what is used too early is not there, what is overwritten too early is lost. */
void host_dma(const dma_desc *descriptor, void *memory, void *ldm);
/* Carry out the requests with this reply word, which must then equal count. */
void dma_wait(volatile int *reply, int count);

/* Messages of one vector register; sent to all other CPEs of the row or column. */
typedef enum { HOST_ROW, HOST_COL } host_bus;
void host_put(host_bus bus, const doublev4 *value);
void host_get(host_bus bus, doublev4 *value);

#define REG_PUTR(value, target) host_put_to(HOST_ROW, value, target)
#define REG_PUTC(value, target) host_put_to(HOST_COL, value, target)
#define REG_GETR(value) host_get(HOST_ROW, &(value))
#define REG_GETC(value) host_get(HOST_COL, &(value))
#define host_put_to(bus, value, target) \
    do { \
        _Static_assert((target) == 8, "this runtime broadcasts only"); \
        host_put(bus, &(value)); \
    } while (0)

/* Load and broadcast: a number, replicated, along the row; a vector along the column. */
#define REG_LDDER(value, from) \
    do { \
        const double loaded = *(from); \
        (value) = (doublev4){loaded, loaded, loaded, loaded}; \
        REG_PUTR(value, 8); \
    } while (0)
#define REG_VLDC(value, from) \
    do { \
        simd_load(value, from); \
        REG_PUTC(value, 8); \
    } while (0)

#endif
