/* includes.c -- the files that a text includes, and theirs in turn
 *
 * NVRTC does not say what it read, so it is found out beforehand: every #include of every branch is
 * followed, which may be more than the compiler reads and is never less, but for what is included
 * by the name of a macro.
 */
#include "device.h"

#include <string.h>

enum { DEEPEST = 32 };

typedef struct walk {
    wick_arena arena; /* paths that were read already */
    const char **seen;
    int n_seen, capacity;
    const wick_args *folders;
    wick_include_visitor visit;
    void *arg;
    const char *folder; /* of the file that is read, with its slash */
    int depth;
    bool failed;
} walk;

static void read_text(walk *w, const char *folder, const char *text, size_t bytes);

/* A new path is remembered; false: it was read before. */
static bool is_new(walk *w, const char *path)
{
    for (int i = 0; i < w->n_seen; i++)
        if (!strcmp(w->seen[i], path)) return false;
    if (w->n_seen == w->capacity) {
        int larger = w->capacity ? w->capacity * 2 : 16;
        const char **seen = wick_arena_alloc(&w->arena, (size_t)larger * sizeof *seen);
        if (seen && w->n_seen) memcpy(seen, w->seen, (size_t)w->n_seen * sizeof *seen);
        w->failed = w->failed || !seen;
        if (!seen) return false;
        w->seen = seen;
        w->capacity = larger;
    }
    const char *copy = wick_arena_strndup(&w->arena, path, strlen(path));
    w->failed = w->failed || !copy;
    if (copy) w->seen[w->n_seen++] = copy;
    return copy != NULL;
}

/* FOLDER/name, if there is one that can be read; true: it is the one that is meant. */
static bool try_file(walk *w, const char *folder, const char *name, size_t size)
{
    wick_text path = {0};
    char *bytes = NULL;
    size_t n = 0;
    wick_ctx own;
    size_t end = strlen(folder);
    const char *slash = end && folder[end - 1] != '/' ? "/" : "";
    wick_ctx_init(&own, NULL);
    wick_text_printf(&path, "%s%s%.*s", folder, slash, (int)size, name);
    w->failed = w->failed || path.failed;
    bool found = !path.failed && wick_file_exists(path.data) &&
                 wick_file_read(&own, path.data, &bytes, &n) == WICK_OK;
    if (found && is_new(w, path.data)) {
        w->visit(w->arg, path.data, bytes, n);
        const char *last = strrchr(path.data, '/');
        if (last) path.data[last + 1 - path.data] = '\0';
        if (w->depth < DEEPEST) read_text(w, last ? path.data : "", bytes, n);
    }
    wick_free(bytes);
    wick_text_free(&path);
    wick_ctx_deinit(&own);
    return found;
}

static void find_file(walk *w, const char *name, size_t size, bool quoted)
{
    if (size == 0) return;
    if (name[0] == '/') {
        try_file(w, "", name, size);
        return;
    }
    if (quoted && try_file(w, w->folder, name, size)) return;
    for (int64_t i = 0; i < w->folders->count; i++)
        if (try_file(w, w->folders->items[i], name, size)) return;
}

static void on_directive(void *arg, const char *start, size_t size, int64_t line)
{
    const char *at = start + 1, *end = start + size;
    (void)line;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (end - at < 8 || memcmp(at, "include", 7) != 0) return;
    at += 7;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || (*at != '"' && *at != '<')) return;
    const char *close = memchr(at + 1, *at == '"' ? '"' : '>', (size_t)(end - at - 1));
    if (close) find_file(arg, at + 1, (size_t)(close - at - 1), *at == '"');
}

static void read_text(walk *w, const char *folder, const char *text, size_t bytes)
{
    wick_lexer lex;
    wick_token t;
    const char *before = w->folder;
    w->folder = folder;
    w->depth++;
    wick_lex_start(&lex, text, bytes);
    lex.directive = on_directive;
    lex.directive_arg = w;
    do
        t = wick_lex_next(&lex);
    while (t.kind != WICK_TOKEN_END);
    w->depth--;
    w->folder = before;
}

bool wick_includes_visit(const char *folder, const char *text, const wick_args *folders,
                         wick_include_visitor visit, void *arg)
{
    walk w = {.folders = folders, .visit = visit, .arg = arg};
    read_text(&w, folder, text, strlen(text));
    wick_arena_free(&w.arena);
    return !w.failed;
}
