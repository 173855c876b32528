/* cmd_cache.c -- `wick cache`: what wick.load keeps, how much it is, whether it is whole
 *
 * A module lies under one key, the note that leads to it under another (src/build/cached.c); a
 * person sees the pair as one entry. A module whose note now leads elsewhere (a header was edited)
 * has no name any more and waits for the sweep.
 */
#include "cache.h"
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_JSON = 256, SHORT_KEY = 12 };

static const cli_pair words[] = {
    {"path", "where it is"},
    {"list", "what is in it: key, size, age, element types and source, last used first"},
    {"size", "how many files and bytes"},
    {"verify", "reads every entry, removes those that are broken; exit code 1 if there were any"},
    {"clear", "removes everything"},
    {0}};

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "for list and size: in a form for programs", 0}, {0}};

typedef struct arguments {
    const char *what;
    bool json;
} arguments;

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    const char *names[WICK_COUNT(words)], *nearest;
    int n = 0;
    switch (key) {
    case KEY_JSON: a->json = true; return 0;
    case ARGP_KEY_ARG:
        if (a->what) argp_error(state, "one thing at a time");
        for (; words[n].word; n++) {
            names[n] = words[n].word;
            if (strcmp(value, names[n]) == 0) a->what = names[n];
        }
        if (a->what) return 0;
        nearest = cli_nearest(value, names, n);
        if (nearest)
            argp_error(state, "\"%s\" is none of its words; did you mean \"%s\"?", value, nearest);
        argp_error(state, "\"%s\" is none of its words: path, list, size, verify, clear", value);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- what is in it ---- */

typedef struct row {
    char key[WICK_CACHE_KEY_DIGITS + 1]; /* of the module */
    int64_t bytes, used;
    char *note; /* NULL: no note leads here */
} row;

typedef struct content {
    wick_cache_entry *files;
    int64_t n_files, bytes;
    row *rows; /* one per module, least recently used first */
    int64_t n_rows;
} content;

static bool has_ending(const char *name, const char *ending)
{
    const char *dot = strchr(name, '.');
    return dot && dot - name == WICK_CACHE_KEY_DIGITS && strcmp(dot, ending) == 0;
}

static row *find_row(const content *c, const char *key)
{
    for (int64_t i = 0; i < c->n_rows; i++) {
        if (strcmp(c->rows[i].key, key) == 0) return &c->rows[i];
    }
    return NULL;
}

/* Notes that cannot be read, or that lead to a module that is gone, are passed over. */
static wick_status attach_note(wick_ctx *ctx, const wick_cache *cache, const content *c,
                               const wick_cache_entry *file)
{
    char key[WICK_CACHE_KEY_DIGITS + 1], module[WICK_CACHE_KEY_DIGITS + 1], *note = NULL;
    size_t n = 0;
    row *r = NULL;
    snprintf(key, sizeof key, "%.*s", WICK_CACHE_KEY_DIGITS, file->name);
    WICK_TRY(wick_cache_peek(ctx, cache, key, ".note", &note, &n));
    if (note && wick_cached_module_key(key, note, module)) r = find_row(c, module);
    if (!r || r->note) {
        wick_free(note);
        return WICK_OK;
    }
    r->note = note;
    r->bytes += file->bytes;
    return WICK_OK;
}

static wick_status read_content(wick_ctx *ctx, const wick_cache *cache, content *c)
{
    WICK_TRY(wick_cache_list(ctx, cache, &c->files, &c->n_files));
    c->rows = wick_calloc((size_t)c->n_files + 1, sizeof *c->rows);
    if (!c->rows) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    for (int64_t i = 0; i < c->n_files; i++) {
        const wick_cache_entry *file = &c->files[i];
        row *r = &c->rows[c->n_rows];
        c->bytes += file->bytes;
        if (!has_ending(file->name, ".so")) continue;
        snprintf(r->key, sizeof r->key, "%.*s", WICK_CACHE_KEY_DIGITS, file->name);
        r->bytes = file->bytes;
        r->used = file->used;
        c->n_rows++;
    }
    for (int64_t i = 0; i < c->n_files; i++) {
        if (has_ending(c->files[i].name, ".note"))
            WICK_TRY(attach_note(ctx, cache, c, &c->files[i]));
    }
    return WICK_OK;
}

static void free_content(content *c)
{
    for (int64_t i = 0; i < c->n_rows; i++) {
        wick_free(c->rows[i].note);
    }
    wick_free(c->rows);
    wick_free(c->files);
}

/* The rest of the note's line that begins with `name`; "" without one. */
static const char *line_of(const row *r, const char *name, char *out, size_t n)
{
    size_t length = strlen(name);
    *out = '\0';
    for (const char *line = r->note; line && *line && *line != '\n';) {
        size_t size = strcspn(line, "\n");
        if (size > length && strncmp(line, name, length) == 0 && line[length] == ' ') {
            snprintf(out, n, "%.*s", (int)(size - length - 1), line + length + 1);
            return out;
        }
        line += size + (line[size] == '\n');
    }
    return out;
}

/* ---- output ---- */

static void print_age(int64_t used)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    int64_t age = (int64_t)time(NULL) - used;
    char text[32];
    int i = 0;
    if (age < 0) age = 0; /* the clock was set back */
    while (i < WICK_COUNT(units) - 1 && age < units[i].seconds) {
        i++;
    }
    snprintf(text, sizeof text, "%lld %s", (long long)(age / units[i].seconds), units[i].unit);
    printf("%8s", text);
}

static void print_row(const row *r)
{
    char types[128], source[4096];
    printf("%.*s  %8.1f kB  ", SHORT_KEY, r->key, (double)r->bytes / 1000);
    print_age(r->used);
    line_of(r, "types", types, sizeof types);
    printf("  %-8s  ", *types ? types : "-");
    cli_put_name(stdout, *line_of(r, "source", source, sizeof source) ? source : "-");
    puts("");
}

static void print_row_json(const row *r)
{
    static const char *const names[] = {"source", "operators", "types"};
    char value[4096];
    printf("{\"key\": \"%s\", \"bytes\": %lld, \"used\": %lld", r->key, (long long)r->bytes,
           (long long)r->used);
    for (int i = 0; i < WICK_COUNT(names); i++) {
        printf(", \"%s\": ", names[i]);
        if (*line_of(r, names[i], value, sizeof value)) {
            cli_put_json(stdout, value);
        } else {
            printf("null");
        }
    }
    printf("}");
}

static void print_list(const content *c, bool json)
{
    if (json) printf("[");
    for (int64_t i = c->n_rows - 1; i >= 0; i--) {
        if (json) {
            printf("%s", i < c->n_rows - 1 ? ",\n " : "");
            print_row_json(&c->rows[i]);
        } else {
            print_row(&c->rows[i]);
        }
    }
    if (json) puts("]");
}

static void print_size(const wick_cache *cache, const content *c, bool json)
{
    if (json) {
        printf("{\"path\": ");
        cli_put_json(stdout, cache->folder);
        printf(", \"modules\": %lld, \"files\": %lld, \"bytes\": %lld}\n", (long long)c->n_rows,
               (long long)c->n_files, (long long)c->bytes);
        return;
    }
    printf("%lld module%s in %lld file%s, ", (long long)c->n_rows, c->n_rows == 1 ? "" : "s",
           (long long)c->n_files, c->n_files == 1 ? "" : "s");
    cli_put_bytes(stdout, c->bytes);
    puts("");
}

/* ---- the words ---- */

static int look(const cli_verb *verb, wick_ctx *ctx, const wick_cache *cache, const arguments *a)
{
    content c = {0};
    wick_status status = read_content(ctx, cache, &c);
    if (!status) {
        if (!a->what && !a->json) printf("%s\n", cache->folder);
        if (a->what && strcmp(a->what, "list") == 0) {
            print_list(&c, a->json);
        } else {
            print_size(cache, &c, a->json);
        }
    }
    free_content(&c);
    return status ? cli_fail(verb->called, wick_ctx_message(ctx)) : CLI_OK;
}

static int verify(const cli_verb *verb, wick_ctx *ctx, const wick_cache *cache)
{
    int64_t checked = 0, broken = 0;
    if (wick_cache_verify(ctx, cache, &checked, &broken)) {
        return cli_fail(verb->called, wick_ctx_message(ctx));
    }
    if (!broken) {
        printf("%lld entr%s, all whole\n", (long long)checked, checked == 1 ? "y" : "ies");
        return CLI_OK;
    }
    printf("%lld entr%s; %lld %s broken and will be built anew\n", (long long)checked,
           checked == 1 ? "y" : "ies", (long long)broken, broken == 1 ? "was" : "were");
    return CLI_FAILED;
}

static int clear(const cli_verb *verb, wick_ctx *ctx, const wick_cache *cache)
{
    int64_t removed = 0, left = 0;
    wick_cache_entry *files = NULL;
    wick_status status = wick_cache_clear(ctx, cache, &removed);
    if (!status) status = wick_cache_list(ctx, cache, &files, &left);
    wick_free(files);
    if (status) return cli_fail(verb->called, wick_ctx_message(ctx));
    printf("removed %lld file%s\n", (long long)removed, removed == 1 ? "" : "s");
    if (!left) return CLI_OK;
    errno = 0;
    fprintf(stderr, "%s: %lld file%s of %s could not be removed", verb->called, (long long)left,
            left == 1 ? "" : "s", cache->folder);
    if (access(cache->folder, W_OK) != 0) fprintf(stderr, " (%s)", strerror(errno));
    fputs("\n", stderr);
    return CLI_FAILED;
}

static int work(const cli_verb *verb, wick_ctx *ctx, const wick_cache *cache, const arguments *a)
{
    const char *what = a->what ? a->what : "";
    if (!cache->folder)
        return cli_fail(verb->called, cache->why ? cache->why : "there is no cache");
    if (strcmp(what, "verify") == 0) return verify(verb, ctx, cache);
    if (strcmp(what, "clear") == 0) return clear(verb, ctx, cache);
    if (strcmp(what, "path") != 0) return look(verb, ctx, cache, a);
    puts(cache->folder);
    return CLI_OK;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    arguments a = {0};
    wick_ctx ctx;
    wick_cache cache = {0};
    int code;
    cli_parse(verb, parse, argc, argv, &a);
    wick_ctx_init(&ctx, NULL);
    if (wick_cache_open(&ctx, NULL, &cache)) {
        code = cli_fail(verb->called, wick_ctx_message(&ctx));
    } else {
        code = work(verb, &ctx, &cache, &a);
    }
    wick_cache_close(&cache);
    wick_ctx_deinit(&ctx);
    return code;
}

static const cli_pair environment[] = {
    {"WICK_CACHE_DIR", "the folder (else wick in $XDG_CACHE_HOME, else ~/.cache/wick)"},
    {"WICK_CACHE_SIZE",
     "what it may grow to (\"200M\"; else 1G): what was not used for longest goes"},
    {0}};

static const cli_pair examples[] = {
    {"wick cache", "where it is, and how large"},
    {"wick cache list", "what is in it"},
    {"wick cache clear", "starts afresh; the next load builds again"},
    {0}};

const cli_verb cli_cache = {
    .name = "cache",
    .called = "wick cache",
    .purpose = "look at what wick.load keeps, check it, clear it",
    .operands = "[path|list|size|verify|clear]",
    .description =
        "Look after the cache of built operators. wick.load builds a file once and finds the "
        "module "
        "here in every later process; an edit of the file or of a header it includes, another "
        "compiler or other flags make another entry. The folder belongs to you alone: one that "
        "others may write is refused, since what is in it is run. It may be cleared at any time, "
        "also while programs use it.",
    .options = options,
    .words = words,
    .environment = environment,
    .examples = examples,
    .run = run};
