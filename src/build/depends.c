/* depends.c -- the files that went into a build, and whether they still are what they were
 *
 *   dep <hash> PATH              a file that authors edit: its bytes are read every time
 *   sys <size> <time> PATH       a header of the system: package managers set its time
 *   not PATH                     a file that is not there, and would be included in the place of
 * another
 */
#include "builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the compiler's rules: "target: a b\\\n c" with "\\ " for a blank and "$$" for a dollar ----
 */

/* Appends the next name to `out` and returns where it ends; NULL at the end of the text. */
static const char *next_name(const char *at, wick_text *out)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || (at[0] == '\\' && at[1] == '\n'))
        at += *at == '\\' ? 2 : 1;
    if (!*at) return NULL;
    for (; *at && *at != ' ' && *at != '\n' && *at != '\t'; at++) {
        if (at[0] == '\\' && at[1] == '\n') break;
        bool escaped = (at[0] == '\\' && (at[1] == ' ' || at[1] == '#' || at[1] == '\\')) ||
                       (at[0] == '$' && at[1] == '$');
        at += escaped;
        wick_text_addn(out, at, 1);
    }
    return at;
}

/* Not all of /usr: containers have their authors work in /usr/src. */
static bool is_system(const char *path)
{
    return !strncmp(path, "/usr/include/", 13) || !strncmp(path, "/usr/lib", 8);
}

static bool hash_file(const char *path, char hex[33])
{
    char *data = NULL;
    size_t n = 0;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    bool read = wick_file_read(&ctx, path, &data, &n) == WICK_OK;
    if (read) wick_hash_hex(wick_hash_bytes(data, n), hex);
    wick_free(data);
    wick_ctx_deinit(&ctx);
    return read;
}

static bool stat_file(const char *path, char *out, size_t n)
{
    struct stat st;
    if (stat(path, &st) != 0) return false;
    snprintf(out, n, "%" PRId64 " %" PRId64 ".%09ld", (int64_t)st.st_size,
             (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return true;
}

/* Absolute, but with its symbolic links: where they lead may change. */
static bool describe_file(wick_text *out, const char *path)
{
    char state[64], here[4096] = "";
    bool system = is_system(path);
    if (strchr(path, '\n') || (path[0] != '/' && !getcwd(here, sizeof here))) return false;
    if (!(system ? stat_file(path, state, sizeof state) : hash_file(path, state))) return false;
    wick_text_printf(out, "%s %s %s%s%s\n", system ? "sys" : "dep", state, here, *here ? "/" : "",
                     path);
    return true;
}

bool wick_depends_describe(wick_text *out, const char *rules, const char *except)
{
    bool ok = true;
    while (ok && rules) {
        wick_text name = {0};
        rules = next_name(rules, &name);
        const char *path = wick_text_str(&name);
        bool target = name.size && path[name.size - 1] == ':';
        bool own = except && !strncmp(path, except, strlen(except));
        if (rules && !target && !own) ok = describe_file(out, path);
        wick_text_free(&name);
    }
    return ok && !out->failed;
}

bool wick_depends_add(wick_text *out, const char *path)
{
    struct stat st;
    return stat(path, &st) != 0 || !S_ISREG(st.st_mode) || describe_file(out, path);
}

/* The file of a line, when it is an author's. */
static bool author_file(const char *line, size_t n, wick_text *out)
{
    const char *path = !strncmp(line, "dep ", 4) ? memchr(line + 4, ' ', n - 4) : NULL;
    if (path) wick_text_addn(out, path + 1, n - (size_t)(path + 1 - line));
    return path && !out->failed;
}

void wick_depends_shadow(wick_text *out, const char *const *folders, int64_t n_folders)
{
    wick_text lines = {0};
    wick_text_add(&lines, wick_text_str(out)); /* a copy: `out` grows */
    for (const char *at = wick_text_str(&lines); *at;) {
        size_t n = strcspn(at, "\n");
        wick_text file = {0};
        for (int64_t i = 1; author_file(at, n, &file) && i < n_folders; i++) {
            size_t size = strlen(folders[i]);
            bool inside = !strncmp(file.data, folders[i], size) && file.data[size] == '/';
            for (int64_t k = 0; inside && k < i; k++)
                if (strcmp(folders[k], folders[i]) != 0)
                    wick_text_printf(out, "not %s%s\n", folders[k], file.data + size);
            wick_text_free(&file);
            if (inside) break;
        }
        wick_text_free(&file);
        at += n + (at[n] == '\n');
    }
    wick_text_free(&lines);
}

bool wick_depends_settled(const char *lines, const char *since)
{
    struct stat then, now;
    bool settled = stat(since, &then) == 0;
    while (settled && *lines) {
        size_t n = strcspn(lines, "\n");
        wick_text file = {0};
        /* Of two changes within one tick of the clock nobody knows the order. */
        if (author_file(lines, n, &file) && stat(file.data, &now) == 0)
            settled = now.st_ctim.tv_sec < then.st_mtim.tv_sec ||
                      (now.st_ctim.tv_sec == then.st_mtim.tv_sec &&
                       now.st_ctim.tv_nsec < then.st_mtim.tv_nsec);
        wick_text_free(&file);
        lines += n + (lines[n] == '\n');
    }
    return settled;
}

/* ---- later ---- */

static bool is_absent(const char *line, size_t n)
{
    wick_text path = {0};
    wick_text_addn(&path, line + 4, n - 4);
    bool absent = !path.failed && !wick_file_exists(wick_text_str(&path));
    wick_text_free(&path);
    return absent;
}

static bool line_holds(const char *line, size_t n)
{
    if (!strncmp(line, "not ", 4)) return is_absent(line, n);
    char now[64];
    wick_text text = {0};
    bool system = !strncmp(line, "sys ", 4), holds = false;
    wick_text_addn(&text, line + 4, n - 4);
    char *path = text.failed ? NULL : strchr(text.data, ' ');
    if (path && system) path = strchr(path + 1, ' ');
    if (path) {
        *path++ = 0;
        holds = (system ? stat_file(path, now, sizeof now) : hash_file(path, now)) &&
                !strcmp(now, text.data);
    }
    wick_text_free(&text);
    return holds;
}

static bool is_in(const char *line, size_t n, const char *folder)
{
    const char *path = memchr(line + 4, ' ', n - 4);
    size_t f = strlen(folder);
    return path && n - (size_t)(path + 1 - line) > f && !strncmp(path + 1, folder, f);
}

bool wick_depends_hold_for(const char *lines, const char *installed)
{
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        bool author = (!strncmp(lines, "dep ", 4) && !(installed && is_in(lines, n, installed))) ||
                      !strncmp(lines, "not ", 4);
        if (author && !line_holds(lines, n)) return false;
        lines += n + (lines[n] == '\n');
    }
    return true;
}

bool wick_depends_hold(const char *lines)
{
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        bool described =
            !strncmp(lines, "dep ", 4) || !strncmp(lines, "sys ", 4) || !strncmp(lines, "not ", 4);
        if (described && !line_holds(lines, n)) return false;
        lines += n + (lines[n] == '\n');
    }
    return true;
}
