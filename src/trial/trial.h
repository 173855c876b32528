/* trial.h -- an operator run under guard: what it reads and writes, how it behaves when called
 * again
 *
 *   zone.c       memory with a guard before and behind it
 *   trial.c      a call whose tensors all lie in zones, made once or many times
 *   schedule.c   wick_parallel cut into as many pieces, and run in such an order, as a trial asks
 *   together.c   the same operator called by several threads at once
 *   watch.c      what pieces of a loop, or several callers, touch in common
 *   instrumented.c   the functions that a module calls so that it can be watched
 *   snapshot.c   what the process holds: heap, files, mappings, threads
 *   state.c      how the process is set: rounding, signals, the locale
 *   crash.c      the last words of a process that an operator brings down
 *
 * For `wick check`, which runs it in a process of its own: an access outside of a zone ends the
 * process, and crash.c says which zone it was. Tensors are on the CPU.
 */
#ifndef WICK_TRIAL_H
#define WICK_TRIAL_H

#include "module.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* ---- zone.c ---- */

/*   | guard |  slack | data | slack  | guard |
 *           '------- open pages -----'          slack: less than a page, watched
 * Guards cannot be touched at all. Where data ends with the open pages (at_end), the first byte
 * past the end is in the guard; where it begins with them, the last byte before the start is. */
typedef struct wick_zone {
    char label[64];
    char *reserved;
    size_t reserved_bytes;
    char *open;
    size_t open_bytes;
    char *data;
    size_t bytes;
    void *owner; /* the user's own */
} wick_zone;

typedef struct wick_zone_wish {
    const char *label;
    size_t bytes;
    size_t alignment; /* of data where it is at the end: a power of two, 1 at least */
    bool at_end;
    size_t shift; /* bytes by which data begins behind the start of a page, unless at_end */
    bool writable;
    size_t room; /* bytes on both sides that may be used, and are looked at by wick_zone_inspect */
    bool folded; /* of a huge zone only the tail is memory of its own (wick_zone_tail) */
} wick_zone_wish;

/* Zeroed memory as wished. The zone is known by its address: it may not be moved while open. */
wick_status wick_zone_open(wick_ctx *ctx, const wick_zone_wish *wish, wick_zone *out);
/* What is in it from now on is only read. */
void wick_zone_seal(const wick_zone *zone);
/* Fills data (of a folded zone: the tail, and what the rest is folded onto); the slack is as new.
 */
void wick_zone_fill(const wick_zone *zone, uint8_t with);
/* Says what was written into the slack, a line each, and once; nothing if nothing was. */
void wick_zone_inspect(const wick_zone *zone, wick_text *out);
void wick_zone_close(wick_zone *zone);
/* How many bytes at the end of a zone so large are memory of its own; all, unless it is huge. */
size_t wick_zone_tail(size_t bytes);
/* "4 bytes past the end of y", for any address; NULL when it is near no zone. Safe in a signal
 * handler. Writes to `room`. */
const char *wick_zone_describe(const void *address, char *room, size_t size);

/* ---- schedule.c ---- */

typedef enum wick_order {
    WICK_ORDER_FORWARDS,  /* one piece after another, in the caller's thread */
    WICK_ORDER_BACKWARDS, /* the last piece first */
    WICK_ORDER_SHUFFLED,
    WICK_ORDER_AT_ONCE, /* a thread for each, all released together */
    WICK_ORDER_WATCHED  /* a thread for each, one after another: watch.c */
} wick_order;

typedef struct wick_schedule {
    int threads; /* a loop is cut into at most so many pieces */
    wick_order order;
    uint64_t seed;
    int64_t loops;    /* counted: calls of wick_parallel that could be cut */
    int64_t pieces;   /* and the most pieces that one of them allows */
    int64_t meetings; /* loops at once of which two pieces did run at the same time */
} wick_schedule;

/* wick_services.parallel; its schedule is the trial's that ctx->host points to. */
wick_status wick_schedule_parallel(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body,
                                   void *arg);

/* Waits until the counter is there: spinning, so that those who wait go on together, but not for
 * long where there are more threads than CPUs. */
void wick_wait_until(const atomic_int *counter, int wanted);

/* ---- watch.c ---- */

enum { WICK_WATCH_STRANDS = 16, WICK_WATCH_CONFLICTS = 8 };

/* How memory is touched: bits. */
enum { WICK_TOUCH_READ = 0, WICK_TOUCH_WRITE = 1, WICK_TOUCH_ATOMIC = 2 };

typedef struct wick_toucher {
    const void *code; /* the instruction */
    bool writes;
} wick_toucher;

/* Two strands that touch the same memory, and nothing orders them. */
typedef struct wick_conflict {
    wick_toucher now, before;
    char where[96]; /* "" where it is in no zone */
} wick_conflict;

typedef void (*wick_strand_body)(void *arg, int strand);

/* Runs the body for each strand, on a thread each, one after another; what an instrumented module
 * does in it is watched. */
wick_status wick_watch_run(wick_ctx *ctx, int n, wick_strand_body body, void *arg);
/* Moves what was found since the last time to `out`, which has room for WICK_WATCH_CONFLICTS. */
int wick_watch_take(wick_conflict *out);
/* What a module that is watched does. Outside of a strand they do nothing; memory is kept, inside,
 * until all strands have run, so that it is nobody else's meanwhile. */
void wick_watch_touch(const void *address, size_t bytes, int kind, const void *code);
void wick_watch_acquire(const void *address);
void wick_watch_release(const void *address);
void wick_watch_free(void *memory);
bool wick_watch_is_inside(void);

/* ---- instrumented.c ---- */

/* The flags that a module is built with so that it can be watched; ends with NULL. */
extern const char *const wick_watch_flags[];
/* Modules loaded from now on find the functions they call then. */
wick_status wick_watch_offer(wick_ctx *ctx);

/* ---- snapshot.c ---- */

typedef struct wick_snapshot {
    int64_t heap_bytes, mapped_bytes, files, threads;
} wick_snapshot;

void wick_snapshot_take(wick_snapshot *out);

/* ---- state.c ---- */

enum { WICK_STATE_SIGNALS = 32, WICK_STATE_LIMITS = 16 };

typedef struct wick_state {
    uint32_t control; /* of the floating-point unit */
    int rounding;
    char locale[256], folder[1024];
    sigset_t blocked;
    struct sigaction action[WICK_STATE_SIGNALS];
    uint64_t environment; /* a hash */
    unsigned umask;
    uint64_t cpus[16]; /* a bit each */
    struct rlimit limit[WICK_STATE_LIMITS];
    int children; /* 0: none, 1: at work, 2: ended, and nobody has asked */
} wick_state;

void wick_state_take(wick_state *out);
/* Says what is another now than it was then, a line each; nothing if nothing is. */
void wick_state_compare(const wick_state *before, wick_text *out);
/* All but the environment and children. */
void wick_state_restore(const wick_state *to);

/* ---- trial.c ---- */

typedef struct wick_trial_options {
    bool at_end; /* else tensors begin where a guard ends */
    uint32_t
        shift; /* bit k: tensor k (inputs, then results) begins an element later, unless at_end */
    uint8_t fill; /* what results hold before the call; scratch, with the other highest bit */
    int threads;
    wick_order order;
    uint64_t seed;
    int64_t repeats;  /* calls in all, 1 at least */
    int64_t meetings; /* fewer, once pieces have met so often (wick_schedule); 0: all of them */
    size_t room;      /* bytes on both sides of each tensor that a call may use */
} wick_trial_options;

enum { TRIAL_MAX_ZONES = 2 * WICK_MAX_PARAMS };

/* Where a call's copy of an input, a result or a scratch buffer lies. */
typedef struct wick_trial_place {
    const wick_param *param;
    bool scratch;
    wick_zone zone;
    int64_t size[WICK_MAX_RANK], stride[WICK_MAX_RANK];
} wick_trial_place;

typedef struct wick_trial {
    wick_schedule schedule; /* first: ctx->host points to the trial */
    wick_ctx ctx;
    wick_op *op;
    const wick_signature *sig;
    wick_trial_options options;
    wick_value args[WICK_MAX_PARAMS];
    int64_t input_size[WICK_MAX_PARAMS][WICK_MAX_RANK],
        input_stride[WICK_MAX_PARAMS][WICK_MAX_RANK];
    wick_value results[WICK_MAX_PARAMS];
    bool unwanted[WICK_MAX_PARAMS];
    wick_zone input[WICK_MAX_PARAMS];
    int zone_of[WICK_MAX_PARAMS];  /* whose zone a tensor lies in; -1: in none of these */
    char *before[WICK_MAX_PARAMS]; /* of a zone that is written: its bytes before the call */
    wick_trial_place place[TRIAL_MAX_ZONES]; /* what a call asks for, in the order of asking */
    int n_places, n_asked;
    char *first[2 * WICK_MAX_PARAMS]; /* results of the first call, then what it wrote in place */
    wick_text damage;                 /* a line for each place that was written and must not be */
    wick_text left;                   /* and for each setting that is another afterwards */
    int64_t differs;                  /* the first repeat with another result; -1 */
    wick_snapshot leaked;             /* what the later half of the repeats has not given back */
} wick_trial;

/* An argument of a trial. A tensor's bytes are copied into a zone, gaps between its elements
 * included; one that lies in a zone already is used where it is. */
typedef struct wick_trial_argument {
    wick_value value;
    bool in_zone;
} wick_trial_argument;

/* A trial with its inputs in place; free it also after a failure. */
wick_status wick_trial_init(wick_ctx *ctx, wick_trial *trial, wick_op *op,
                            const wick_trial_argument *args, const bool *unwanted,
                            const wick_trial_options *options);
/* Calls the operator options.repeats times. Returns the operator's own status; its words are in
 * trial->ctx. The results of the last call stay in trial->results until the next call. */
wick_status wick_trial_run(wick_trial *trial);
/* One call whose results are kept for comparison; one more; whether that had the same results. */
wick_status wick_trial_first(wick_trial *trial);
wick_status wick_trial_again(wick_trial *trial);
bool wick_trial_agrees(const wick_trial *trial);
/* Adds what was written outside of the zones that are still open to trial->damage. */
void wick_trial_inspect(wick_trial *trial);
/* The bytes of a result: of a huge one, those of its tail. */
void wick_trial_result(const wick_trial *trial, int output, const void **data, size_t *bytes);
/* What an argument that is written in place has become; NULL for all others. */
const wick_zone *wick_trial_written(const wick_trial *trial, int input);
void wick_trial_free(wick_trial *trial);

/* ---- together.c ---- */

/* Each trial is called by a thread of its own, all at once, `rounds` times at least and for some
 * milliseconds; and each result must be that of the call made alone before. *differs: the first
 * trial with another result, or -1. */
wick_status wick_trial_together(wick_ctx *ctx, wick_trial *trials, int n, int64_t rounds,
                                int *differs);

/* Each trial is called by a strand of its own (wick_watch_run). */
wick_status wick_trial_watch(wick_ctx *ctx, wick_trial *trials, int n);

/* ---- crash.c ---- */

/* From now on, a signal that ends the process (SIGSEGV and the like) first writes a line with what
 * happened to `fd`. For the calling thread also when its stack is exhausted. */
wick_status wick_crash_report(wick_ctx *ctx, int fd);

#endif /* WICK_TRIAL_H */
