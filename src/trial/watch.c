/* watch.c -- what strands that might run at the same time touch in common
 *
 * A race shows only when two threads meet, which on a busy machine they seldom do. Here they never
 * do: strands (pieces of a loop, or whole calls) run one after another, each on a thread of its
 * own, and of every byte it is known who has read and who has written it. Two that touch the same
 * byte, one of them writing, are in conflict unless both do so by atomics, or a lock or an atomic
 * orders the one before the other.
 *
 * What is ordered is told by clocks, as in every such tool: a strand's own goes on at each release,
 * and an acquire takes over what the releaser knew.
 */
#include "trial.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { STRANDS = WICK_WATCH_STRANDS, READERS = 2, GRAIN = 8, RECENT = 256, FIRST_CELLS = 4096 };

/* An instruction, as a strand has run it between two releases. */
typedef struct touch {
    const void *code;
    uint32_t strand, clock;
    int kind;
} touch;

/* Eight bytes of memory: who has touched each of them last (a touch's number; 0: nobody). Of
 * readers two are enough: whoever writes later is not both of them. */
typedef struct cell {
    uintptr_t key;  /* address / GRAIN; 0: free */
    uint32_t point; /* of a lock or an atomic that lies here; 0: none */
    uint32_t written[GRAIN];
    uint32_t read[READERS][GRAIN];
} cell;

/* A lock or an atomic: what is known to whoever acquires it. */
typedef struct point {
    uint32_t clock[STRANDS];
} point;

static struct {
    bool failed; /* out of memory: what was found so far stands */
    cell *cells;
    size_t cell_capacity, n_cells;
    point *points;
    size_t point_capacity, n_points;
    touch *touches;
    uint32_t touch_capacity, n_touches;
    uint32_t recent[STRANDS][RECENT];
    uint32_t clock[STRANDS][STRANDS];
    void **kept;
    size_t n_kept, kept_capacity;
    wick_conflict conflict[WICK_WATCH_CONFLICTS];
    int n_conflicts;
} watch; /* touched by the strand whose turn it is, and by who gives turns */

static _Thread_local int strand = -1; /* which one runs in this thread */

/* ---- tables ---- */

static size_t hash_of(uintptr_t key) { return (size_t)(key * 0x9E3779B97F4A7C15u >> 20); }

/* Twice the room, or none yet. NULL when out of memory; the old one stays. */
static void *grown(void *old, size_t *capacity, size_t first, size_t bytes)
{
    size_t wanted = *capacity ? *capacity * 2 : first;
    void *fresh = wick_realloc(old, wanted * bytes);
    if (fresh)
        *capacity = wanted;
    else
        watch.failed = true;
    return fresh;
}

static cell *slot_for(cell *cells, size_t capacity, uintptr_t key)
{
    size_t at = hash_of(key) & (capacity - 1);
    while (cells[at].key && cells[at].key != key)
        at = (at + 1) & (capacity - 1);
    return &cells[at];
}

static bool grow_cells(void)
{
    size_t wanted = watch.cell_capacity ? watch.cell_capacity * 2 : FIRST_CELLS;
    cell *fresh = wick_calloc(wanted, sizeof *fresh);
    if (!fresh) {
        watch.failed = true;
        return false;
    }
    for (size_t i = 0; i < watch.cell_capacity; i++)
        if (watch.cells[i].key) *slot_for(fresh, wanted, watch.cells[i].key) = watch.cells[i];
    wick_free(watch.cells);
    watch.cells = fresh;
    watch.cell_capacity = wanted;
    return true;
}

static cell *cell_of(uintptr_t key)
{
    if (watch.n_cells * 2 >= watch.cell_capacity && !grow_cells()) return NULL;
    cell *c = slot_for(watch.cells, watch.cell_capacity, key);
    if (!c->key) {
        c->key = key;
        watch.n_cells++;
    }
    return c;
}

static point *point_of(const void *address)
{
    cell *c = cell_of((uintptr_t)address / GRAIN);
    if (c && !c->point) {
        if (watch.n_points == watch.point_capacity) {
            point *fresh = grown(watch.points, &watch.point_capacity, 16, sizeof *fresh);
            if (!fresh) return NULL;
            watch.points = fresh;
        }
        watch.points[watch.n_points++] = (point){{0}};
        c->point = (uint32_t)watch.n_points;
    }
    return c ? &watch.points[c->point - 1] : NULL;
}

/* The number of a touch: the one of the last time, where nothing has changed. 0: out of memory. */
static uint32_t number_of(const void *code, int kind)
{
    uint32_t *recent = &watch.recent[strand][(hash_of((uintptr_t)code) + (size_t)kind) % RECENT];
    const touch wanted = {code, (uint32_t)strand, watch.clock[strand][strand], kind};
    const touch *last = *recent ? &watch.touches[*recent] : NULL;
    if (last && last->code == code && last->clock == wanted.clock && last->kind == kind)
        return *recent;
    if (!watch.touches || watch.n_touches == watch.touch_capacity) {
        size_t capacity = watch.touch_capacity;
        touch *fresh = grown(watch.touches, &capacity, 1024, sizeof *fresh);
        if (!fresh) return 0;
        watch.touches = fresh;
        watch.touch_capacity = (uint32_t)capacity;
    }
    watch.touches[watch.n_touches] = wanted;
    return *recent = watch.n_touches++;
}

/* ---- conflicts ---- */

static bool is_write(int kind) { return (kind & WICK_TOUCH_WRITE) != 0; }

static wick_toucher toucher_of(const touch *t)
{
    return (wick_toucher){.code = t->code, .writes = is_write(t->kind)};
}

static bool is_known(const wick_conflict *c, const touch *a, const touch *b)
{
    return (c->now.code == a->code && c->before.code == b->code) ||
           (c->now.code == b->code && c->before.code == a->code);
}

static void note_conflict(const void *address, const touch *now, const touch *before)
{
    char room[96];
    for (int i = 0; i < watch.n_conflicts; i++)
        if (is_known(&watch.conflict[i], now, before)) return;
    if (watch.n_conflicts == WICK_WATCH_CONFLICTS) return;
    wick_conflict *c = &watch.conflict[watch.n_conflicts++];
    *c = (wick_conflict){.now = toucher_of(now), .before = toucher_of(before)};
    const char *where = wick_zone_describe(address, room, sizeof room);
    if (where) strncpy(c->where, where, sizeof c->where - 1);
}

/* Whether the one before comes before the strand's present, whoever runs first. */
static bool is_ordered(const touch *before, uint32_t now_strand)
{
    return before->strand == now_strand || before->clock <= watch.clock[now_strand][before->strand];
}

static void compare(const void *address, uint32_t before, uint32_t now)
{
    if (!before) return;
    const touch *b = &watch.touches[before], *n = &watch.touches[now];
    if (b->kind & n->kind & WICK_TOUCH_ATOMIC) return;
    if (!is_ordered(b, n->strand)) note_conflict(address, n, b);
}

/* In the place of one that comes before it anyway, else of the last. */
static void note_reader(cell *c, int at, uint32_t now)
{
    int slot = 0;
    while (slot < READERS - 1 && c->read[slot][at] &&
           !is_ordered(&watch.touches[c->read[slot][at]], (uint32_t)strand))
        slot++;
    c->read[slot][at] = now;
}

static void touch_byte(cell *c, int at, uint32_t now, bool writes)
{
    const void *address = (const void *)(c->key * GRAIN + (uintptr_t)at);
    if ((writes ? c->written[at] : c->read[0][at]) == now) return;
    compare(address, c->written[at], now);
    if (!writes) {
        note_reader(c, at, now);
        return;
    }
    for (int r = 0; r < READERS; r++)
        compare(address, c->read[r][at], now);
    c->written[at] = now;
}

void wick_watch_touch(const void *address, size_t bytes, int kind, const void *code)
{
    if (strand < 0 || watch.failed || bytes == 0) return;
    const uint32_t now = number_of(code, kind);
    const uintptr_t end = (uintptr_t)address + bytes;
    if (!now) return;
    for (uintptr_t a = (uintptr_t)address; a < end;) {
        cell *c = cell_of(a / GRAIN);
        if (!c) return;
        const uintptr_t last = (a / GRAIN + 1) * GRAIN < end ? (a / GRAIN + 1) * GRAIN : end;
        for (; a < last; a++)
            touch_byte(c, (int)(a % GRAIN), now, is_write(kind));
    }
}

/* ---- order ---- */

static void take_over(uint32_t *to, const uint32_t *from)
{
    for (int s = 0; s < STRANDS; s++)
        if (from[s] > to[s]) to[s] = from[s];
}

void wick_watch_acquire(const void *address)
{
    const point *p = strand < 0 ? NULL : point_of(address);
    if (p) take_over(watch.clock[strand], p->clock);
}

void wick_watch_release(const void *address)
{
    point *p = strand < 0 ? NULL : point_of(address);
    if (!p) return;
    take_over(p->clock, watch.clock[strand]);
    watch.clock[strand][strand]++;
}

/* ---- memory that is given back ---- */

void wick_watch_free(void *memory)
{
    if (strand >= 0 && memory) {
        if (watch.n_kept == watch.kept_capacity) {
            void **fresh = grown(watch.kept, &watch.kept_capacity, 16, sizeof *fresh);
            if (!fresh) return; /* lost, rather than taken for another strand's */
            watch.kept = fresh;
        }
        watch.kept[watch.n_kept++] = memory;
        return;
    }
    free(memory);
}

bool wick_watch_is_inside(void) { return strand >= 0; }

/* ---- running ---- */

typedef struct turn {
    wick_strand_body body;
    void *arg;
    int index;
    pthread_t thread;
    sem_t *done;
    sem_t go, leave;
} turn;

static void wait_for(sem_t *s)
{
    while (sem_wait(s) != 0) {
    }
}

/* A strand stays until all have run, so that none gets another's stack. */
static void *take_turn(void *arg)
{
    turn *t = arg;
    wait_for(&t->go);
    if (t->body) {
        strand = t->index;
        t->body(t->arg, t->index);
        strand = -1;
    }
    sem_post(t->done);
    wait_for(&t->leave);
    return NULL;
}

static void begin_watch(void)
{
    memset(watch.recent, 0, sizeof watch.recent);
    memset(watch.clock, 0, sizeof watch.clock);
    for (int s = 0; s < STRANDS; s++)
        watch.clock[s][s] = 1;
    watch.n_touches = 1; /* 0 is nobody */
    watch.failed = false;
}

static void end_watch(void)
{
    for (size_t i = 0; i < watch.n_kept; i++)
        free(watch.kept[i]);
    wick_free(watch.kept);
    wick_free(watch.cells);
    wick_free(watch.points);
    wick_free(watch.touches);
    watch.kept = NULL;
    watch.cells = NULL;
    watch.points = NULL;
    watch.touches = NULL;
    watch.n_kept = watch.kept_capacity = watch.n_cells = watch.cell_capacity = 0;
    watch.n_points = watch.point_capacity = 0;
    watch.n_touches = watch.touch_capacity = 0;
}

wick_status wick_watch_run(wick_ctx *ctx, int n, wick_strand_body body, void *arg)
{
    turn turns[STRANDS];
    sem_t done;
    int started = 0;
    if (n > STRANDS)
        return wick_fail(ctx, WICK_EINVAL, "%d strands, expected at most %d", n, STRANDS);
    begin_watch();
    sem_init(&done, 0, 0);
    for (; started < n; started++) {
        turn *t = &turns[started];
        *t = (turn){.body = body, .arg = arg, .index = started, .done = &done};
        sem_init(&t->go, 0, 0);
        sem_init(&t->leave, 0, 0);
        if (pthread_create(&t->thread, NULL, take_turn, t) != 0) break;
    }
    for (int i = 0; i < started; i++) {
        if (started < n) turns[i].body = NULL;
        sem_post(&turns[i].go);
        wait_for(&done);
    }
    for (int i = 0; i < started; i++) {
        sem_post(&turns[i].leave);
        pthread_join(turns[i].thread, NULL);
        sem_destroy(&turns[i].go);
        sem_destroy(&turns[i].leave);
    }
    sem_destroy(&done);
    end_watch();
    if (started < n) return wick_fail(ctx, WICK_ENOMEM, "a thread cannot be started");
    return watch.failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory") : WICK_OK;
}

int wick_watch_take(wick_conflict *out)
{
    int n = watch.n_conflicts;
    memcpy(out, watch.conflict, (size_t)n * sizeof *out);
    watch.n_conflicts = 0;
    return n;
}
