/* cache_sweep.c -- keeps the cache within bounds, and in order */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A temporary this old has no owner any more; a folder may have been kept on purpose, for a day. */
enum { FORGOTTEN_SECONDS = 3600, FOLDER_SECONDS = 24 * 3600 };

int64_t wick_cache_parse_size(const char *text)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}, {"T", 40}};
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || n < 0) return -1;
    for (int i = 0; i < WICK_COUNT(units); i++)
        if (!strcmp(end, units[i].unit))
            return n <= INT64_MAX >> units[i].shift ? (int64_t)n << units[i].shift : -1;
    return -1;
}

static int64_t size_limit(void)
{
    const char *text = getenv("WICK_CACHE_SIZE");
    int64_t limit = text ? wick_cache_parse_size(text) : -1;
    return limit >= 0 ? limit : (int64_t)1 << 30;
}

static int by_use(const void *a, const void *b)
{
    const wick_cache_entry *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

static bool look_at(const wick_cache *cache, const char *name, wick_cache_entry *out)
{
    wick_text path = {0};
    struct stat st;
    if (name[0] == '.' && (!name[1] || !strcmp(name, ".."))) return false;
    if (strlen(name) >= sizeof out->name) return false;
    wick_text_printf(&path, "%s/%s", cache->folder, name);
    bool there = !path.failed && lstat(path.data, &st) == 0 && S_ISREG(st.st_mode);
    wick_text_free(&path);
    if (!there) return false;
    memcpy(out->name, name, strlen(name) + 1);
    out->bytes = (int64_t)st.st_size;
    out->used = (int64_t)st.st_mtim.tv_sec;
    return true;
}

wick_status wick_cache_list(wick_ctx *ctx, const wick_cache *cache, wick_cache_entry **out,
                            int64_t *n)
{
    int64_t capacity = 64;
    wick_cache_entry *list = wick_malloc((size_t)capacity * sizeof *list);
    DIR *dir = cache->folder ? opendir(cache->folder) : NULL;
    const struct dirent *item;

    *n = 0;
    while (list && dir && (item = readdir(dir))) {
        if (*n == capacity) {
            wick_cache_entry *more = wick_realloc(list, (size_t)(capacity *= 2) * sizeof *list);
            if (!more) wick_free(list);
            list = more;
            if (!list) break;
        }
        *n += look_at(cache, item->d_name, &list[*n]);
    }
    if (dir) closedir(dir);
    if (!list) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    qsort(list, (size_t)*n, sizeof *list, by_use);
    *out = list;
    return WICK_OK;
}

static bool remove_entry(const wick_cache *cache, const char *name)
{
    wick_text path = {0};
    wick_text_printf(&path, "%s/%s", cache->folder, name);
    bool removed = !path.failed && unlink(path.data) == 0;
    wick_text_free(&path);
    return removed;
}

/* A killed builder leaves its private folder behind (wick_dir_temporary: "wick-" and six letters).
 */
static void sweep_folders(int64_t now)
{
    const char *tmp = getenv("TMPDIR");
    DIR *dir = opendir(tmp && *tmp ? tmp : "/tmp");
    const struct dirent *item;
    while (dir && (item = readdir(dir))) {
        struct stat st;
        wick_text path = {0};
        if (strncmp(item->d_name, "wick-", 5) != 0 || strlen(item->d_name) != 11) continue;
        wick_text_printf(&path, "%s/%s", tmp && *tmp ? tmp : "/tmp", item->d_name);
        bool ours = !path.failed && lstat(path.data, &st) == 0 && S_ISDIR(st.st_mode) &&
                    st.st_uid == geteuid();
        if (ours && now - (int64_t)st.st_mtim.tv_sec > FOLDER_SECONDS) wick_dir_remove(path.data);
        wick_text_free(&path);
    }
    if (dir) closedir(dir);
}

void wick_cache_sweep(const wick_cache *cache)
{
    wick_ctx ctx;
    wick_cache_entry *list = NULL;
    int64_t n = 0, total = 0, limit = size_limit(), now = (int64_t)time(NULL);

    wick_ctx_init(&ctx, NULL);
    if (wick_cache_list(&ctx, cache, &list, &n) == WICK_OK) {
        for (int64_t i = 0; i < n; i++)
            total += list[i].bytes;
        for (int64_t i = 0; i < n; i++) {
            bool forgotten = list[i].name[0] == '.' && now - list[i].used > FORGOTTEN_SECONDS;
            bool too_much = total > limit && list[i].name[0] != '.';
            if ((forgotten || too_much) && remove_entry(cache, list[i].name))
                total -= list[i].bytes;
        }
    }
    wick_free(list);
    wick_ctx_deinit(&ctx);
    sweep_folders(now);
}

wick_status wick_cache_clear(wick_ctx *ctx, const wick_cache *cache, int64_t *removed)
{
    wick_cache_entry *list = NULL;
    int64_t n = 0;
    *removed = 0;
    WICK_TRY(wick_cache_list(ctx, cache, &list, &n));
    for (int64_t i = 0; i < n; i++)
        *removed += remove_entry(cache, list[i].name);
    wick_free(list);
    return WICK_OK;
}

wick_status wick_cache_verify(wick_ctx *ctx, const wick_cache *cache, int64_t *checked,
                              int64_t *broken)
{
    wick_cache_entry *list = NULL;
    int64_t n = 0;
    wick_status s = WICK_OK;

    *checked = *broken = 0;
    WICK_TRY(wick_cache_list(ctx, cache, &list, &n));
    for (int64_t i = 0; i < n && s == WICK_OK; i++) {
        char *ending = strchr(list[i].name, '.'), *data = NULL;
        size_t bytes;
        bool sealed =
            ending > list[i].name &&
            (!strcmp(ending, ".so") || !strcmp(ending, ".note") || !strcmp(ending, ".cubin"));
        if (!sealed) continue;
        char key[sizeof list[i].name];
        snprintf(key, sizeof key, "%.*s", (int)(ending - list[i].name), list[i].name);
        s = wick_cache_peek(ctx, cache, key, ending, &data, &bytes); /* looking is not using */
        *checked += 1;
        if (s == WICK_OK && !data) {
            remove_entry(cache, list[i].name);
            *broken += 1;
        }
        wick_free(data);
    }
    wick_free(list);
    return s;
}
