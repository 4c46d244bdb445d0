/* One core group on the host. CPEs are fibres that run until they wait, so a run is deterministic,
 * and when nobody can go on it is a deadlock. Each CPE has an LDM of its own between guard zones,
 * and one receive queue a bus of the machine's depth. */
#include <athread.h>
#include <slave.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "machine.h"

/* CPEs run in their order or against it: a program without a race gives the same both times. */
#ifndef HOST_REVERSED
#define HOST_REVERSED 0
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) ((void)(from), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) ((void)(from), (void)(bytes))
#endif

enum { CPES = SW_ROWS * SW_COLS, STACK_BYTES = 128 * 1024, VECTOR_BYTES = 32 };
enum { GUARD_BYTES = 4096, GUARDED_BYTES = SW_LDM_BYTES + 2 * GUARD_BYTES };
enum { UNDEFINED = 0xff, GUARD = 0xa5 };

typedef struct {
    dma_desc desc;
    char *memory, *ldm;
} request;

typedef struct {
    doublev4 message[SW_BUS_DEPTH];
    int first, count;
} queue;

typedef enum { READY, SENDING, RECEIVING, SYNCHRONISING, DONE } state;

typedef struct {
    ucontext_t context;
    char *stack, *ldm;
    int ldm_used;
    request *requests;
    int issued, room;
    queue received[2];
    state state;
    host_bus bus;
    int barriers;
    void *fake_stack;
} cpe;

static cpe cpes[CPES];
static cpe *running;
static int at_barrier, barriers_passed;
static ucontext_t scheduler;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;
static void (*task)(void *);
static void *task_argument;

static struct {
    long get_bytes, put_bytes, transactions, descriptors, messages[2], ldm_peak;
} counted;

static const char *const bus_name[] = {"row", "column"};

static int place(const cpe *c, int axis) {
    const int number = (int)(c - cpes);
    return axis == 0 ? number / SW_COLS : number % SW_COLS;
}

static void complain(const cpe *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "CPE (%d, %d) ", place(c, 0), place(c, 1));
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

#define die(c, ...) (complain(c, __VA_ARGS__), exit(3))

/* Fibres */

/* Tell the address sanitizer that a stack is left for another, and reached again. */
static void leave_for(void **fake, const void *stack, size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
}

static void arrive(void *fake, const void **left, size_t *bytes) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, left, bytes);
#else
    (void)fake, (void)left, (void)bytes;
#endif
}

static void to_scheduler(void) {
    cpe *const c = running;
    leave_for(c->state == DONE ? NULL : &c->fake_stack, scheduler_stack, scheduler_stack_bytes);
    swapcontext(&c->context, &scheduler);
    arrive(c->fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}

static void to_cpe(cpe *c) {
    void *fake = NULL;
    running = c;
    leave_for(&fake, c->stack, STACK_BYTES);
    swapcontext(&scheduler, &c->context);
    arrive(fake, NULL, NULL);
}

static void run_task(void) {
    arrive(NULL, &scheduler_stack, &scheduler_stack_bytes);
    task(task_argument);
    running->state = DONE;
    to_scheduler();
}

/* The next CPE whose queue a broadcast of c would find full, or NULL. */
static cpe *full_target(cpe *c) {
    const int axis = c->bus == HOST_ROW ? 0 : 1;
    for (cpe *other = cpes; other < cpes + CPES; other++)
        if (other != c && place(other, axis) == place(c, axis) &&
            other->received[c->bus].count == SW_BUS_DEPTH)
            return other;
    return NULL;
}

static int can_go_on(cpe *c) {
    switch (c->state) {
    case READY: return 1;
    case SENDING: return full_target(c) == NULL;
    case RECEIVING: return c->received[c->bus].count > 0;
    case SYNCHRONISING: return barriers_passed > c->barriers;
    default: return 0;
    }
}

static void wait_until_ready(state wanted, host_bus bus) {
    running->state = wanted;
    running->bus = bus;
    if (!can_go_on(running)) to_scheduler();
    running->state = READY;
}

int athread_syn(host_scope scope, int mask) {
    if (scope != ARRAY_SCOPE || mask != 0xffff) die(running, "waits for some CPEs only");
    running->barriers = barriers_passed;
    if (++at_barrier == CPES) {
        at_barrier = 0;
        barriers_passed++;
    }
    wait_until_ready(SYNCHRONISING, HOST_ROW);
    return 0;
}

static void report_deadlock(void) {
    for (cpe *c = cpes; c < cpes + CPES; c++) {
        if (c->state == SYNCHRONISING) complain(c, "waits for all CPEs at a barrier");
        if (c->state == RECEIVING) complain(c, "waits to receive on its %s bus", bus_name[c->bus]);
        if (c->state != SENDING) continue;
        const cpe *const full = full_target(c);
        complain(c, "waits to send on its %s bus: the queue of CPE (%d, %d) is full",
                 bus_name[c->bus], place(full, 0), place(full, 1));
    }
    exit(4);
}

static void start(cpe *c) {
    c->state = READY;
    getcontext(&c->context);
    c->context.uc_stack.ss_sp = c->stack;
    c->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&c->context, run_task, 0);
}

int host_spawn(void (*function)(void *), void *argument) {
    task = function;
    task_argument = argument;
    for (cpe *c = cpes; c < cpes + CPES; c++) start(c);
    return 0;
}

static void check_guard(const cpe *c, const char *guard) {
    for (int i = 0; i < GUARD_BYTES; i++)
        if ((unsigned char)guard[i] != GUARD) die(c, "wrote outside its LDM");
}

static void check_end(const cpe *c) {
    for (int bus = 0; bus < 2; bus++)
        if (c->received[bus].count)
            die(c, "never receives %d messages of its %s bus", c->received[bus].count,
                bus_name[bus]);
    if (c->issued) die(c, "ends before %d DMA requests are awaited", c->issued);
    if (c->ldm_used) die(c, "ends with %d B of LDM in use", c->ldm_used);
    ASAN_UNPOISON_MEMORY_REGION(c->ldm - GUARD_BYTES, GUARDED_BYTES);
    check_guard(c, c->ldm - GUARD_BYTES);
    check_guard(c, c->ldm + SW_LDM_BYTES);
    ASAN_POISON_MEMORY_REGION(c->ldm - GUARD_BYTES, GUARDED_BYTES);
}

int athread_join(void) {
    for (int left = CPES, progress = 1; left > 0;) {
        if (!progress) report_deadlock();
        progress = 0;
        for (int i = 0; i < CPES; i++) {
            cpe *const c = &cpes[HOST_REVERSED ? CPES - 1 - i : i];
            if (!can_go_on(c)) continue;
            to_cpe(c);
            progress = 1;
            left -= c->state == DONE;
        }
    }
    for (const cpe *c = cpes; c < cpes + CPES; c++) check_end(c);
    return 0;
}

int athread_init(void) {
    for (cpe *c = cpes; c < cpes + CPES; c++) {
        c->stack = malloc(STACK_BYTES);
        char *const guarded = aligned_alloc(VECTOR_BYTES, GUARDED_BYTES);
        if (c->stack == NULL || guarded == NULL) die(c, "has no memory");
        memset(guarded, GUARD, GUARDED_BYTES);
        c->ldm = guarded + GUARD_BYTES;
        ASAN_POISON_MEMORY_REGION(guarded, GUARDED_BYTES);
    }
    return 0;
}

int athread_halt(void) {
    for (cpe *c = cpes; c < cpes + CPES; c++) {
        ASAN_UNPOISON_MEMORY_REGION(c->ldm - GUARD_BYTES, GUARDED_BYTES);
        free(c->ldm - GUARD_BYTES);
        free(c->stack);
        free(c->requests);
    }
    printf("dma_get_bytes %ld dma_put_bytes %ld dma_transactions %ld dma_descriptors %ld "
           "row_messages %ld col_messages %ld ldm_peak_bytes %ld\n",
           counted.get_bytes, counted.put_bytes, counted.transactions, counted.descriptors,
           counted.messages[HOST_ROW], counted.messages[HOST_COL], counted.ldm_peak);
    return 0;
}

/* A CPE's own calls */

int athread_get_id(int core) {
    return core < 0 ? (int)(running - cpes) : core;
}

static int whole_vectors(int bytes) {
    return (bytes + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES;
}

void *ldm_malloc(int bytes) {
    char *const piece = running->ldm + running->ldm_used;
    running->ldm_used += whole_vectors(bytes);
    if (bytes < 0 || running->ldm_used > SW_LDM_BYTES)
        die(running, "asks for %d B of LDM in all, %d B are there", running->ldm_used,
            SW_LDM_BYTES);
    if (running->ldm_used > counted.ldm_peak) counted.ldm_peak = running->ldm_used;
    ASAN_UNPOISON_MEMORY_REGION(piece, bytes);
    memset(piece, UNDEFINED, (size_t)bytes);
    return piece;
}

void ldm_free(void *piece, int bytes) {
    running->ldm_used -= whole_vectors(bytes);
    if ((char *)piece != running->ldm + running->ldm_used)
        die(running, "frees a piece of LDM that is not its last");
    ASAN_POISON_MEMORY_REGION(piece, bytes);
}

/* DMA */

void host_dma(const dma_desc *desc, void *memory, void *ldm) {
    cpe *const c = running;
    const char *const first = ldm;
    const int block = desc->bsize ? desc->bsize : desc->size;
    if (first < c->ldm || first + desc->size > c->ldm + c->ldm_used)
        die(c, "copies %d B outside what it has of its LDM", desc->size);
    if (desc->size <= 0 || desc->size % block || desc->size % 4 || block % 4 || desc->stepsize % 4)
        die(c, "issues a request of %d B in blocks of %d B, %d B apart", desc->size, desc->bsize,
            desc->stepsize);
    if ((uintptr_t)desc->reply % 4 || (uintptr_t)memory % 4 || (uintptr_t)ldm % 4)
        die(c, "issues a request with addresses that are not aligned to 4 B");
    if (c->issued == c->room) {
        c->room = c->room ? 2 * c->room : 16;
        c->requests = realloc(c->requests, (size_t)c->room * sizeof *c->requests);
        if (c->requests == NULL) die(c, "has no memory");
    }
    c->requests[c->issued++] = (request){*desc, memory, ldm};
}

static void carry_out(const request *r) {
    const dma_desc *const d = &r->desc;
    const int block = d->bsize ? d->bsize : d->size;
    char *memory = r->memory;
    for (int at = 0; at < d->size; at += block, memory += block + d->stepsize) {
        if (d->operation == DMA_GET)
            memcpy(r->ldm + at, memory, (size_t)block);
        else
            memcpy(memory, r->ldm + at, (size_t)block);
        const uintptr_t first = (uintptr_t)memory, last = first + (uintptr_t)block - 1;
        counted.transactions +=
            (long)(last / SW_TRANSACTION_BYTES - first / SW_TRANSACTION_BYTES) + 1;
    }
    *(d->operation == DMA_GET ? &counted.get_bytes : &counted.put_bytes) += d->size;
    counted.descriptors++;
    ++*d->reply;
}

void dma_wait(volatile int *reply, int count) {
    cpe *const c = running;
    int kept = 0;
    for (int i = 0; i < c->issued; i++) {
        if (c->requests[i].desc.reply == reply)
            carry_out(&c->requests[i]);
        else
            c->requests[kept++] = c->requests[i];
    }
    c->issued = kept;
    if (*reply != count) die(c, "waits for %d replies, %d requests were issued", count, *reply);
}

/* Register communication */

void host_put(host_bus bus, const doublev4 *value) {
    cpe *const c = running;
    const int axis = bus == HOST_ROW ? 0 : 1;
    wait_until_ready(SENDING, bus);
    for (cpe *other = cpes; other < cpes + CPES; other++) {
        if (other == c || place(other, axis) != place(c, axis)) continue;
        queue *const q = &other->received[bus];
        q->message[(q->first + q->count++) % SW_BUS_DEPTH] = *value;
    }
    counted.messages[bus]++;
}

void host_get(host_bus bus, doublev4 *value) {
    wait_until_ready(RECEIVING, bus);
    queue *const q = &running->received[bus];
    *value = q->message[q->first];
    q->first = (q->first + 1) % SW_BUS_DEPTH;
    q->count--;
}
