/* zone.c -- memory with a guard before and behind it
 *
 * A huge zone that is written (folded) would not fit into memory. Its head is therefore one chunk
 * of memory mapped again and again; only its tail, where a wrong index of 32 bits shows, is memory
 * of its own. A huge zone that is only read costs nothing while nobody writes: it reads as zeros.
 * In front of a huge zone the guard is as large as the zone: there an index of 32 bits that has
 * wrapped points to.
 */
#define _GNU_SOURCE 1 /* memfd_create, MAP_ANONYMOUS */
#include "trial.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 16 << 20, CHUNK = 64 << 20, MOST_ZONES = 1024 };
static const size_t huge = (size_t)1 << 30;
/* In every type a number that changes when 1 is added to it, and that shows when it is read: 2e6 in
 * f64, 12 in f32 and bf16. */
static const uint8_t slack = 0x41;

/* Open zones, for wick_zone_describe. */
static _Atomic(const wick_zone *) zones[MOST_ZONES];

static void enlist(const wick_zone *zone)
{
    for (int i = 0; i < MOST_ZONES; i++) {
        const wick_zone *none = NULL;
        if (atomic_compare_exchange_strong(&zones[i], &none, zone)) return;
    }
}

static void delist(const wick_zone *zone)
{
    for (int i = 0; i < MOST_ZONES; i++) {
        const wick_zone *there = zone;
        if (atomic_compare_exchange_strong(&zones[i], &there, NULL)) return;
    }
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- opening ---- */

size_t wick_zone_tail(size_t bytes) { return bytes < huge ? bytes : CHUNK / 2; }

/* Bytes at the front that are not memory of their own: whole chunks, and one at least is left. */
static size_t head_of(const wick_zone *zone)
{
    return zone->bytes < huge ? 0 : (zone->open_bytes - CHUNK) / CHUNK * CHUNK;
}

/* Maps the head of a huge zone onto one chunk, at once: page by page takes as long as the call. */
static bool fold(const wick_zone *zone)
{
    size_t head = head_of(zone);
    int fd = memfd_create("wick-zone", MFD_CLOEXEC);
    bool done = fd >= 0 && ftruncate(fd, CHUNK) == 0;
    for (size_t at = 0; done && at < head; at += CHUNK)
        done = mmap(zone->open + at, CHUNK, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) != MAP_FAILED;
    if (fd >= 0) close(fd);
    return done;
}

/* Zeros: two megabytes of them at a time where the system has such pages, which is a hundred times
 * as fast, and else one page after another. */
static bool open_zeros(const wick_zone *zone, size_t bytes)
{
    madvise(zone->open, bytes, MADV_HUGEPAGE);
    return mprotect(zone->open, bytes, PROT_READ) == 0;
}

static bool open_pages(const wick_zone *zone, bool folded)
{
    size_t head = head_of(zone);
    if (zone->open_bytes == 0) return true;
    if (head > 0 && folded && !fold(zone)) return false;
    if (head > 0 && !folded && !open_zeros(zone, head)) return false;
    return mprotect(zone->open + head, zone->open_bytes - head, PROT_READ | PROT_WRITE) == 0;
}

static void fill_slack(const wick_zone *zone)
{
    size_t before = (size_t)(zone->data - zone->open);
    if (head_of(zone) == 0) memset(zone->open, slack, before);
    memset(zone->data + zone->bytes, slack, zone->open_bytes - before - zone->bytes);
}

wick_status wick_zone_open(wick_ctx *ctx, const wick_zone_wish *wish, wick_zone *out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t shift = wish->at_end ? 0 : wish->shift;
    const size_t room = round_up(wish->room, page);
    wick_zone z = {.bytes = wish->bytes};

    snprintf(z.label, sizeof z.label, "%s", wish->label);
    z.open_bytes = round_up(wish->bytes + shift, page) + 2 * room;
    const size_t front = GUARD + (z.bytes < huge ? 0 : z.open_bytes);
    z.reserved_bytes = front + z.open_bytes + GUARD;
    z.reserved =
        mmap(NULL, z.reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (z.reserved == MAP_FAILED)
        return wick_fail(ctx, WICK_ENOMEM, "no memory for %s (%zu bytes)", wish->label,
                         wish->bytes);
    z.open = z.reserved + front;
    if (!open_pages(&z, wish->folded)) {
        munmap(z.reserved, z.reserved_bytes);
        return wick_fail(ctx, WICK_ENOMEM, "no memory for %s (%zu bytes)", wish->label,
                         wish->bytes);
    }
    z.data = z.open + room + shift;
    if (wish->at_end)
        z.data = z.open + (z.open_bytes - room - wish->bytes) / wish->alignment * wish->alignment;
    *out = z;
    fill_slack(out);
    if (!wish->writable) wick_zone_seal(out);
    enlist(out);
    return WICK_OK;
}

void wick_zone_seal(const wick_zone *zone)
{
    if (zone->open_bytes > 0) mprotect(zone->open, zone->open_bytes, PROT_READ);
}

void wick_zone_close(wick_zone *zone)
{
    if (!zone->reserved) return;
    delist(zone);
    munmap(zone->reserved, zone->reserved_bytes);
    *zone = (wick_zone){0};
}

void wick_zone_fill(const wick_zone *zone, uint8_t with)
{
    size_t tail = wick_zone_tail(zone->bytes);
    fill_slack(zone);
    memset(zone->data + zone->bytes - tail, with, tail);
    if (tail < zone->bytes) memset(zone->data, with, CHUNK - (size_t)(zone->data - zone->open));
}

/* ---- telling ---- */

/* The first byte of the slack that changed; n when none has. */
static size_t changed(const char *from, size_t n)
{
    size_t i = 0;
    while (i < n && (uint8_t)from[i] == slack)
        i++;
    return i;
}

static void inspect_part(char *from, size_t n, wick_text *out)
{
    char room[96];
    size_t at = changed(from, n);
    if (at == n) return;
    wick_text_printf(out, "it wrote %s\n", wick_zone_describe(from + at, room, sizeof room));
    memset(from, slack, n);
}

void wick_zone_inspect(const wick_zone *zone, wick_text *out)
{
    size_t before = (size_t)(zone->data - zone->open);
    if (head_of(zone) == 0) inspect_part(zone->open, before, out);
    inspect_part(zone->data + zone->bytes, zone->open_bytes - before - zone->bytes, out);
}

/* Decimal digits; snprintf may not be called in a signal handler. */
static char *put_number(char *to, const char *end, size_t n)
{
    char digits[24];
    int count = 0;
    do
        digits[count++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (count > 0 && to < end)
        *to++ = digits[--count];
    return to;
}

static char *put_text(char *to, const char *end, const char *s)
{
    while (*s && to < end)
        *to++ = *s++;
    return to;
}

/* "right", or "40 bytes": how far from an edge. */
static char *put_distance(char *to, const char *end, size_t n)
{
    if (n == 0) return put_text(to, end, "right");
    to = put_number(to, end, n);
    return put_text(to, end, n == 1 ? " byte" : " bytes");
}

static const wick_zone *nearest(const char *address)
{
    for (int i = 0; i < MOST_ZONES; i++) {
        const wick_zone *z = atomic_load(&zones[i]);
        if (z && address >= z->reserved && address < z->reserved + z->reserved_bytes) return z;
    }
    return NULL;
}

const char *wick_zone_describe(const void *address, char *room, size_t size)
{
    const char *at = address, *end = room + size - 1;
    const wick_zone *z = nearest(at);
    char *to = room;
    if (!z) return NULL;
    if (at >= z->data && at < z->data + z->bytes) {
        to = put_text(to, end, "byte ");
        to = put_number(to, end, (size_t)(at - z->data));
        to = put_text(to, end, " of ");
    } else if (at >= z->data + z->bytes) {
        to = put_distance(to, end, (size_t)(at - (z->data + z->bytes)));
        to = put_text(to, end, " past the end of ");
    } else {
        to = put_distance(to, end, (size_t)(z->data - at));
        to = put_text(to, end, " before the start of ");
    }
    to = put_text(to, end, z->label);
    *to = '\0';
    return room;
}
