/* cache.c -- the folder, and entries that prove themselves when they are read */
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The end of every entry. An ELF file does not mind bytes behind its last section. */
typedef struct seal {
    char magic[8];
    uint64_t bytes;
    wick_hash hash;
} seal;

static const char seal_magic[8] = {'W', 'I', 'C', 'K', 'S', 'E', 'A', 'L'};

/* ---- the folder ---- */

/* Every folder on the way, private to the user. 0, or errno. */
static int make_folders(char *path)
{
    for (char *p = path + 1;; p++) {
        char c = *p;
        if (c != '/' && c != 0) continue;
        *p = 0;
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST ? errno : 0;
        *p = c;
        if (failed && c == 0) return failed;
        if (c == 0) return 0;
    }
}

/* What lies here will be run as this user, so nobody else may have put it here. */
static wick_status check_owner(wick_ctx *ctx, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) return WICK_OK; /* it cannot be used, which open says */
    if (!S_ISDIR(st.st_mode))
        return wick_fail(ctx, WICK_EIO,
                         "the cache %s is not a folder: remove it, or set WICK_CACHE_DIR", path);
    if (st.st_uid != geteuid())
        return wick_fail(
            ctx, WICK_EIO,
            "the cache %s belongs to another user (%ld): its contents would be run as you; set "
            "WICK_CACHE_DIR to a folder of your own",
            path, (long)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return wick_fail(ctx, WICK_EIO,
                         "the cache %s can be written by other users: its contents would be run as "
                         "you; chmod go-w it, "
                         "or set WICK_CACHE_DIR to another folder",
                         path);
    return WICK_OK;
}

static wick_status open_folder(wick_ctx *ctx, wick_text *path, wick_cache *out)
{
    size_t root = path->size;
    wick_text why = {0};
    wick_text_add(path, "/v1");
    if (path->failed) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    int e = make_folders(path->data);
    if (!e && access(path->data, R_OK | X_OK) != 0) e = errno;
    WICK_TRY(check_owner(ctx, path->data));
    path->data[root] = 0;
    wick_status s = check_owner(ctx, path->data);
    path->data[root] = '/';
    if (s != WICK_OK) return s;
    if (e) {
        wick_text_printf(&why, "the cache %s cannot be used (%s)", path->data, strerror(e));
        out->why = wick_strdup(wick_text_str(&why));
        wick_text_free(&why);
        return WICK_OK;
    }
    out->folder = wick_strdup(path->data);
    return out->folder ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

wick_status wick_cache_open(wick_ctx *ctx, const char *given, wick_cache *out)
{
    wick_text path = {0};
    *out = (wick_cache){0};
    wick_cache_root(&path, given);
    wick_status s = path.size ? open_folder(ctx, &path, out) : WICK_OK;
    if (!path.size)
        out->why = wick_strdup("there is no home folder for a cache (set WICK_CACHE_DIR)");
    wick_text_free(&path);
    return s;
}

void wick_cache_close(wick_cache *cache)
{
    wick_free(cache->folder);
    wick_free(cache->why);
    *cache = (wick_cache){0};
}

/* ---- entries ---- */

char *wick_cache_path(const wick_cache *cache, const char *key, const char *ending)
{
    wick_text path = {0};
    if (!cache->folder) return NULL;
    wick_text_printf(&path, "%s/%s%s", cache->folder, key, ending);
    char *copy = path.failed ? NULL : wick_strdup(path.data);
    wick_text_free(&path);
    return copy;
}

/* In a folder that others may only look into, an entry is still somebody's. */
static bool is_private(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_sealed(const char *data, size_t bytes)
{
    seal s;
    if (bytes < sizeof s) return false;
    memcpy(&s, data + bytes - sizeof s, sizeof s);
    if (memcmp(s.magic, seal_magic, sizeof seal_magic) != 0 || s.bytes != bytes - sizeof s)
        return false;
    wick_hash hash = wick_hash_bytes(data, bytes - sizeof s);
    return hash.high == s.hash.high && hash.low == s.hash.low;
}

/* `look` only: the entry is neither marked as used nor removed. */
static wick_status read_entry(wick_ctx *ctx, const wick_cache *cache, const char *key,
                              const char *ending, bool look, char **out, size_t *bytes)
{
    char *path = wick_cache_path(cache, key, ending), *data = NULL;
    size_t n = 0;

    *out = NULL;
    if (!cache->folder) return WICK_OK;
    if (!path) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (!is_private(path) || wick_file_read(ctx, path, &data, &n) != WICK_OK) {
        wick_ctx_clear(ctx); /* gone, or not readable: a miss */
    } else if (!is_sealed(data, n)) {
        if (!look) unlink(path);
        wick_free(data);
    } else {
        if (!look) utimensat(AT_FDCWD, path, NULL, 0); /* used now, for the sweep */
        *bytes = n - sizeof(seal);
        data[*bytes] = 0;
        *out = data;
    }
    wick_free(path);
    return WICK_OK;
}

wick_status wick_cache_read(wick_ctx *ctx, const wick_cache *cache, const char *key,
                            const char *ending, char **out, size_t *bytes)
{
    return read_entry(ctx, cache, key, ending, false, out, bytes);
}

wick_status wick_cache_peek(wick_ctx *ctx, const wick_cache *cache, const char *key,
                            const char *ending, char **out, size_t *bytes)
{
    return read_entry(ctx, cache, key, ending, true, out, bytes);
}

wick_status wick_cache_write(wick_ctx *ctx, const wick_cache *cache, const char *key,
                             const char *ending, const void *data, size_t bytes)
{
    seal s = {.bytes = bytes, .hash = wick_hash_bytes(data, bytes)};
    char *path = wick_cache_path(cache, key, ending);
    char *sealed = path ? wick_malloc(bytes + sizeof s) : NULL;
    wick_status status;

    memcpy(s.magic, seal_magic, sizeof seal_magic);
    if (sealed) {
        if (bytes) memcpy(sealed, data, bytes);
        memcpy(sealed + bytes, &s, sizeof s);
        status = wick_file_write(ctx, path, sealed, bytes + sizeof s);
        /* Whatever the umask. Until it is private, readers take it for absent. */
        if (status == WICK_OK && chmod(path, 0600) != 0) unlink(path);
    } else {
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    }
    wick_free(sealed);
    wick_free(path);
    return status;
}
