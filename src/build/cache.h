/* cache.h -- built modules, kept under the hash of everything that went into them
 *
 *   $WICK_CACHE_DIR/v1/
 *     <key>.so      a module, sealed: its bytes, then their hash
 *     <key>.note    what the module was made from (sealed too); keyed by what is known before the
 * compiler ran <key>.lock    locked while somebody builds; its existence means nothing <key>.log
 * the compiler's words when a build failed
 *
 * Entries appear whole, by rename, and are checked when read: one that is cut short or altered
 * counts as absent and is removed. Locks are the operating system's and die with their owner. The
 * folder belongs to its owner alone: one that others may write is refused, since what is in it will
 * be run. When the folder cannot be had at all (read-only, full), work goes on without it and says
 * so.
 */
#ifndef WICK_CACHE_H
#define WICK_CACHE_H

#include "core.h"

typedef struct wick_cache {
    char *folder; /* NULL: there is none, everything is a miss and nothing is kept */
    char *why;    /* then: the reason, in words */
} wick_cache;

enum { WICK_CACHE_KEY_DIGITS = 32 };

/* Finds the folder (`given`, else $WICK_CACHE_DIR, else the user's) and makes it if need be. Fails
 * only for one that is not safe to use. */
wick_status wick_cache_open(wick_ctx *ctx, const char *given, wick_cache *out);
void wick_cache_close(wick_cache *cache);

/* The path of an entry ("<key>.so"); owned by the caller, NULL when out of memory or without a
 * folder. */
char *wick_cache_path(const wick_cache *cache, const char *key, const char *ending);
/* Reads an entry and checks its seal. *out (NUL-terminated, owned) is NULL when it is absent or
 * broken. */
wick_status wick_cache_read(wick_ctx *ctx, const wick_cache *cache, const char *key,
                            const char *ending, char **out, size_t *bytes);
/* The same for those who only look: it does not count as use, and a broken entry stays. */
wick_status wick_cache_peek(wick_ctx *ctx, const wick_cache *cache, const char *key,
                            const char *ending, char **out, size_t *bytes);
/* Seals and publishes an entry. */
wick_status wick_cache_write(wick_ctx *ctx, const wick_cache *cache, const char *key,
                             const char *ending, const void *data, size_t bytes);

/* ---- cached.c ---- */

/* The key of the module that the note at `key` leads to; false when out of memory. */
bool wick_cached_module_key(const char *key, const char *note, char out[WICK_CACHE_KEY_DIGITS + 1]);

/* ---- cache_lock.c ---- */

typedef struct wick_cache_lock {
    int fd; /* -1: not held */
} wick_cache_lock;

/* Takes the key's lock, waiting for whoever holds it. After a second `waiting` (may be NULL) is
 * told the holder's process number, and again every ten seconds. Where locks are not to be had,
 * goes on without. */
void wick_cache_lock_take(const wick_cache *cache, const char *key,
                          void (*waiting)(void *arg, long pid), void *arg, wick_cache_lock *out);
void wick_cache_lock_release(wick_cache_lock *lock);

/* ---- cache_sweep.c ---- */

typedef struct wick_cache_entry {
    char name[64];
    int64_t bytes;
    int64_t used; /* seconds since 1970 */
} wick_cache_entry;

/* All files of the cache, oldest use first. Owned: wick_free. */
wick_status wick_cache_list(wick_ctx *ctx, const wick_cache *cache, wick_cache_entry **out,
                            int64_t *n);
/* Removes what was used least recently until the rest is within $WICK_CACHE_SIZE (1G), and
 * forgotten temporaries. */
void wick_cache_sweep(const wick_cache *cache);
/* Removes every entry whose seal is broken; how many there were. */
wick_status wick_cache_verify(wick_ctx *ctx, const wick_cache *cache, int64_t *checked,
                              int64_t *broken);
wick_status wick_cache_clear(wick_ctx *ctx, const wick_cache *cache, int64_t *removed);
/* "200M", "1G", "65536"; -1 when it is none of these. */
int64_t wick_cache_parse_size(const char *text);

#endif /* WICK_CACHE_H */
