/* nvrtc_find.c -- finding NVRTC and its builtins
 *
 * The order is that of wick_nvrtc_open's description. In each place the major version of the
 * installed driver is looked for first, since a driver may refuse what a later one's compiler
 * makes, then the newest. NVRTC opens its builtins by name when it first compiles and does not look
 * beside itself; they are opened here, so that it finds them in the process.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "nvrtc.h"

#include "driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OLDEST_MAJOR = 12, NEWEST_MAJOR = 15, MOST_NAMES = NEWEST_MAJOR - OLDEST_MAJOR + 3 };

static pthread_mutex_t nvrtc_lock = PTHREAD_MUTEX_INITIALIZER;
static nvrtc_library nvrtc; /* written under the lock, before it is published */
static _Atomic(const nvrtc_library *) nvrtc_found;
static char **told; /* folders; guarded by the lock, like n_told */
static int n_told;

typedef struct search {
    char name[MOST_NAMES][24]; /* "libnvrtc.so.13" ... "libnvrtc.so" */
    int n_names;
    nvrtc_library *out;
    bool found, out_of_memory;
    wick_text looked;  /* ", /usr/local/cuda": where it was not */
    wick_text refused; /* "; /x/libnvrtc.so.13: ...": what was there and could not be used */
} search;

static void add_name(search *s, int major)
{
    char *name = s->name[s->n_names++];
    if (major)
        snprintf(name, sizeof s->name[0], "libnvrtc.so.%d", major);
    else
        snprintf(name, sizeof s->name[0], "libnvrtc.so");
}

static void make_names(search *s)
{
    int driver = wick_driver_version() / 1000;
    if (driver >= OLDEST_MAJOR && driver <= NEWEST_MAJOR) add_name(s, driver);
    for (int major = NEWEST_MAJOR; major >= OLDEST_MAJOR; major--)
        if (major != driver) add_name(s, major);
    add_name(s, 0);
}

/* ---- opening ---- */

/* The first function that is missing, or NULL. */
static const char *resolve_functions(void *library, nvrtc_library *out)
{
    const char *missing = NULL;
#define RESOLVE(name, parameters)                                                                  \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&out->name, &symbol, sizeof symbol);                                                \
        if (!symbol && !missing) missing = #name;                                                  \
    }
    RESOLVE(nvrtcGetErrorString, )
    NVRTC(RESOLVE)
#undef RESOLVE
    return missing;
}

/* "folder/name", or NULL. */
static const char *join(search *s, wick_text *out, const char *folder, const char *name)
{
    wick_text_free(out);
    wick_text_printf(out, "%s/%s", folder, name);
    s->out_of_memory = s->out_of_memory || out->failed;
    return out->failed ? NULL : out->data;
}

typedef bool (*visitor)(search *s, const char *path, const char *name);

/* Calls visit for each entry of a folder whose name begins so, until it returns true. */
static bool each_entry(search *s, const char *folder, const char *prefix, visitor visit,
                       const char *name)
{
    DIR *dir = opendir(folder);
    bool done = false;
    wick_text path = {0};
    if (!dir) return false;
    for (const struct dirent *e = readdir(dir); e && !done; e = readdir(dir))
        if (e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix)))
            done = join(s, &path, folder, e->d_name) && visit(s, path.data, name);
    wick_text_free(&path);
    closedir(dir);
    return done;
}

static bool open_builtins(search *s, const char *path, const char *name)
{
    (void)s, (void)name;
    dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* where it does not open, NVRTC says so */
    return false;
}

static char *copy_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = wick_strdup(slash ? path : ".");
    if (folder && slash) folder[slash - path] = '\0';
    return folder;
}

static int compare_archs(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static char *make_identity(const nvrtc_library *n)
{
    struct stat about;
    wick_text text = {0};
    if (stat(n->path, &about)) memset(&about, 0, sizeof about);
    wick_text_printf(&text, "NVRTC %d.%d %s %lld %lld.%09ld", n->major, n->minor, n->path,
                     (long long)about.st_size, (long long)about.st_mtim.tv_sec,
                     about.st_mtim.tv_nsec);
    if (text.failed) wick_text_free(&text);
    return text.data;
}

/* What is asked of the library once; false: it does not answer, or there is no memory. */
static bool ask(search *s)
{
    nvrtc_library *n = s->out;
    Dl_info info;
    void *address = NULL;
    int n_archs = 0;
    memcpy(&address, &n->nvrtcVersion, sizeof address);
    if (!dladdr(address, &info) || n->nvrtcVersion(&n->major, &n->minor) ||
        n->nvrtcGetNumSupportedArchs(&n_archs) || n_archs < 0)
        return false;
    n->path = wick_strdup(info.dli_fname);
    n->archs = wick_calloc((size_t)n_archs, sizeof *n->archs);
    n->identity = n->path ? make_identity(n) : NULL;
    n->folder = n->path ? copy_folder(n->path) : NULL;
    s->out_of_memory = !n->path || !n->archs || !n->identity || !n->folder;
    bool fine = !s->out_of_memory && !n->nvrtcGetSupportedArchs(n->archs);
    if (fine) {
        n->n_archs = n_archs;
        qsort(n->archs, (size_t)n_archs, sizeof *n->archs, compare_archs);
        each_entry(s, n->folder, "libnvrtc-builtins.so", open_builtins, "");
    }
    return fine;
}

static void forget(nvrtc_library *n)
{
    wick_free(n->path);
    wick_free(n->archs);
    wick_free(n->identity);
    wick_free(n->folder);
    *n = (nvrtc_library){0};
}

/* Takes a library that dlopen gave. */
static void take(search *s, void *library, const char *name)
{
    const char *missing = resolve_functions(library, s->out);
    s->found = !missing && ask(s);
    if (s->found) return; /* and stays open */
    if (missing)
        wick_text_printf(&s->refused, "; %s has no %s", name, missing);
    else
        wick_text_printf(&s->refused, "; %s does not say what it is", name);
    forget(s->out);
    dlclose(library);
}

static bool try_file(search *s, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        take(s, library, path);
    else
        wick_text_printf(&s->refused, "; %s does not open: %s", path, dlerror());
    return s->found;
}

/* ---- places ---- */

static bool try_folder(search *s, const char *folder, const char *name)
{
    wick_text path = {0};
    bool found =
        join(s, &path, folder, name) && access(path.data, F_OK) == 0 && try_file(s, path.data);
    wick_text_free(&path);
    return found;
}

/* Each place once. */
static void note(search *s, const char *place)
{
    size_t n = strlen(place);
    const char *at = wick_text_str(&s->looked);
    for (; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strcspn(at, ",") == n && !strncmp(at, place, n)) return;
    wick_text_printf(&s->looked, "%s%s", s->looked.size ? ", " : "", place);
}

static bool try_lib_of(search *s, const char *folder, const char *name)
{
    wick_text path = {0};
    bool found = join(s, &path, folder, "lib") && try_folder(s, path.data, name);
    wick_text_free(&path);
    return found;
}

/* root/inside/NAME; with `deeper`, root/inside/ANY/lib/NAME. */
static bool try_below(search *s, const char *root, const char *inside, bool deeper,
                      const char *name)
{
    wick_text folder = {0};
    bool found =
        join(s, &folder, root, inside) && (deeper ? each_entry(s, folder.data, "", try_lib_of, name)
                                                  : try_folder(s, folder.data, name));
    wick_text_free(&folder);
    return found;
}

/* Python's site-packages: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, torch/lib. */
static bool try_packages(search *s, const char *folder)
{
    note(s, folder);
    for (int i = 0; i < s->n_names && !s->found; i++)
        if (!try_below(s, folder, "nvidia", true, s->name[i]))
            try_below(s, folder, "torch/lib", false, s->name[i]);
    return s->found;
}

static bool try_python(search *s, const char *folder, const char *name)
{
    static const char *const packages[] = {"site-packages", "dist-packages"};
    wick_text path = {0};
    (void)name;
    for (int i = 0; i < WICK_COUNT(packages) && !s->found; i++)
        if (join(s, &path, folder, packages[i]) && access(path.data, F_OK) == 0)
            try_packages(s, path.data);
    wick_text_free(&path);
    return s->found;
}

/* An environment: lib/python3.12/site-packages; conda has NVRTC in lib itself. */
static bool try_prefix(search *s, const char *prefix)
{
    wick_text lib = {0};
    if (!prefix || !*prefix || s->found) return s->found;
    note(s, prefix);
    for (int i = 0; i < s->n_names && !s->found; i++)
        try_below(s, prefix, "lib", false, s->name[i]);
    if (!s->found && join(s, &lib, prefix, "lib"))
        each_entry(s, lib.data, "python3", try_python, "");
    wick_text_free(&lib);
    return s->found;
}

static bool try_toolkit(search *s, const char *root)
{
    if (!root || !*root || s->found) return s->found;
    note(s, root);
    for (int i = 0; i < s->n_names; i++)
        if (try_below(s, root, "lib64", false, s->name[i]) ||
            try_below(s, root, "lib", false, s->name[i]) ||
            try_below(s, root, "targets", true, s->name[i]))
            return true;
    return false;
}

/* The packages that Wick itself is among: wick/_wick.abi3.so, wick/lib/libwick.so. */
static bool try_around_wick(search *s)
{
    Dl_info info;
    if (s->found || !dladdr((const void *)&nvrtc_lock, &info) || !info.dli_fname) return s->found;
    char *folder = wick_strdup(info.dli_fname);
    s->out_of_memory = s->out_of_memory || !folder;
    for (int up = 0; folder && up < 3 && !s->found; up++) {
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder) break;
        *slash = '\0';
        if (up > 0) try_packages(s, folder);
    }
    wick_free(folder);
    return s->found;
}

/* The environment that the program is installed in: PREFIX/bin/wick. */
static bool try_around_program(search *s)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (s->found || n <= 0) return s->found;
    path[n] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (!slash) return false;
        *slash = '\0';
    }
    return try_prefix(s, path);
}

/* By name: among what is loaded (flags RTLD_NOLOAD), or wherever the loader looks. */
static bool try_names(search *s, int flags)
{
    for (int i = 0; i < s->n_names && !s->found; i++) {
        void *library = dlopen(s->name[i], RTLD_NOW | RTLD_LOCAL | flags);
        if (library) take(s, library, s->name[i]);
    }
    return s->found;
}

static void look_everywhere(search *s)
{
    if (try_names(s, RTLD_NOLOAD)) return;
    for (int i = 0; i < n_told && !s->found; i++)
        try_packages(s, told[i]);
    if (try_around_wick(s) || try_prefix(s, getenv("VIRTUAL_ENV")) ||
        try_prefix(s, getenv("CONDA_PREFIX")) || try_around_program(s) ||
        try_toolkit(s, getenv("CUDA_HOME")) || try_toolkit(s, getenv("CUDA_PATH")) ||
        try_toolkit(s, "/usr/local/cuda"))
        return;
    try_names(s, 0);
}

static wick_status fail_search(wick_ctx *ctx, const search *s, bool given)
{
    if (s->out_of_memory || s->looked.failed || s->refused.failed)
        return wick_fail(ctx, WICK_ENOMEM, "out of memory looking for NVRTC");
    if (given)
        return wick_fail(ctx, WICK_ENOTSUP, "WICK_NVRTC names no NVRTC that can be used%s",
                         wick_text_str(&s->refused));
    return wick_fail(ctx, WICK_ENOTSUP,
                     "there is no NVRTC, which compiles device code, here: looked in %s and on the "
                     "loader's path%s; `pip install nvidia-cuda-nvrtc` brings it, or set "
                     "WICK_NVRTC to the path of libnvrtc.so",
                     wick_text_str(&s->looked), wick_text_str(&s->refused));
}

static wick_status find_locked(wick_ctx *ctx)
{
    search s = {.out = &nvrtc};
    const char *given = getenv("WICK_NVRTC");
    bool is_given = given && *given;
    if (is_given) {
        try_file(&s, given);
    } else {
        make_names(&s);
        look_everywhere(&s);
    }
    wick_status status = s.found ? WICK_OK : fail_search(ctx, &s, is_given);
    wick_text_free(&s.looked);
    wick_text_free(&s.refused);
    return status;
}

wick_status wick_nvrtc_find(wick_ctx *ctx, const nvrtc_library **out)
{
    wick_status status = WICK_OK;
    *out = atomic_load_explicit(&nvrtc_found, memory_order_acquire);
    if (*out) return WICK_OK;
    pthread_mutex_lock(&nvrtc_lock);
    if (!atomic_load_explicit(&nvrtc_found, memory_order_relaxed)) {
        status = find_locked(ctx);
        if (status == WICK_OK) atomic_store_explicit(&nvrtc_found, &nvrtc, memory_order_release);
    }
    pthread_mutex_unlock(&nvrtc_lock);
    if (status == WICK_OK) *out = &nvrtc;
    return status;
}

void wick_nvrtc_look_in(const char *folder)
{
    bool known = false;
    pthread_mutex_lock(&nvrtc_lock);
    for (int i = 0; i < n_told; i++)
        known = known || !strcmp(told[i], folder);
    char **grown = known ? NULL : wick_realloc(told, ((size_t)n_told + 1) * sizeof *told);
    if (grown) {
        told = grown;
        told[n_told] = wick_strdup(folder);
        if (told[n_told]) n_told++;
    }
    pthread_mutex_unlock(&nvrtc_lock);
}
