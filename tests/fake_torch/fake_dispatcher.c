/* fake_dispatcher.c -- libraries, schemas and kernels; what a library added leaves with it, as in
 * torch */
#include "fake_torch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define TORCH_PROTOTYPE(result, name, parameters) EXPORT result name parameters;
TORCH_SHIM(TORCH_PROTOTYPE, TORCH_PROTOTYPE)

extern atomic_long fake_libraries;

/* One definition or one kernel per library: all that the bridge makes of them. */
struct torch_library {
    char ns[64], key[64]; /* key "": a fragment, which defines */
    char name[256];       /* of the operator; "" while nothing was added */
    char schema[512];
    torch_kernel kernel;
    struct torch_library *next;
};

static struct torch_library *libraries;

enum { MOST_NAMES = 64 };
static struct {
    char name[256];
    int n;
} dispatched[MOST_NAMES];

static torch_error library_new(const char *ns, const char *key, torch_library_handle *out)
{
    if (fake_fails_now()) return 1;
    torch_library_handle l = calloc(1, sizeof *l);
    if (!l) abort();
    snprintf(l->ns, sizeof l->ns, "%s", ns);
    snprintf(l->key, sizeof l->key, "%s", key);
    l->next = libraries;
    libraries = l;
    fake_libraries++;
    *out = l;
    return 0;
}

torch_error aoti_torch_library_init_fragment(const char *ns, const char *file, uint32_t line,
                                             torch_library_handle *out)
{
    (void)file, (void)line;
    return library_new(ns, "", out);
}

torch_error aoti_torch_library_init_impl(const char *ns, const char *key, const char *file,
                                         uint32_t line, torch_library_handle *out)
{
    (void)file, (void)line;
    return library_new(ns, key, out);
}

static struct torch_library *find(const char *qualified, const char *key)
{
    const char *name = strstr(qualified, "::");
    if (!name) return NULL;
    size_t n = (size_t)(name - qualified);
    for (struct torch_library *l = libraries; l; l = l->next)
        if (!strncmp(l->ns, qualified, n) && !l->ns[n] && !strcmp(l->name, name + 2) &&
            !strcmp(l->key, key))
            return l;
    return NULL;
}

torch_error aoti_torch_library_def(torch_library_handle library, const char *schema)
{
    char qualified[512];
    if (fake_fails_now()) return 1;
    int n = (int)strcspn(schema, "(");
    snprintf(qualified, sizeof qualified, "%s::%.*s", library->ns, n, schema);
    if (find(qualified, "")) return fake_error("the name is taken");
    snprintf(library->name, sizeof library->name, "%.*s", n, schema);
    snprintf(library->schema, sizeof library->schema, "%s", schema);
    return 0;
}

torch_error torch_library_def_with_tags(torch_library_handle library, const char *schema,
                                        const int32_t *tags, int32_t n)
{
    if (n != 1 || tags[0] != torch_tag_pt2_compliant_tag()) return fake_error("an unknown tag");
    return aoti_torch_library_def(library, schema);
}

torch_error torch_library_impl(torch_library_handle library, const char *name, torch_kernel kernel,
                               uint64_t flags)
{
    (void)flags;
    if (fake_fails_now()) return 1;
    snprintf(library->name, sizeof library->name, "%s", name);
    library->kernel = kernel;
    return 0;
}

torch_error aoti_torch_delete_library_object(torch_library_handle library)
{
    struct torch_library **at = &libraries;
    while (*at != library)
        at = &(*at)->next;
    *at = library->next;
    free(library);
    fake_libraries--;
    return 0;
}

/* ---- calls ---- */

bool fake_run(const char *name, const char *key, torch_ivalue *stack)
{
    struct torch_library *l = find(name, key);
    if (!l || !l->kernel || !find(name, "")) return false;
    l->kernel(stack, 0, 0);
    return true;
}

const char *fake_schema(const char *name)
{
    struct torch_library *l = find(name, "");
    return l ? l->schema : NULL;
}

static void count(const char *name)
{
    int i = 0;
    while (i < MOST_NAMES && dispatched[i].n && strcmp(dispatched[i].name, name) != 0)
        i++;
    if (i == MOST_NAMES) abort();
    snprintf(dispatched[i].name, sizeof dispatched[i].name, "%s", name);
    dispatched[i].n++;
}

int fake_dispatched(const char *name)
{
    for (int i = 0; i < MOST_NAMES; i++)
        if (dispatched[i].n && !strcmp(dispatched[i].name, name)) return dispatched[i].n;
    return 0;
}

bool _ZN2at4_ops19is_vulkan_available4callEv(void)
{
    count("aten::is_vulkan_available");
    return false;
}

/* The few of ATen that the bridge calls. They own their argument, also when they fail. */
static torch_error run_aten(const char *name, torch_ivalue *stack)
{
    torch_handle handle;
    memcpy(&handle, &stack[0], sizeof handle);
    if (fake_fails_now()) {
        aoti_torch_delete_tensor_object(handle);
        return 1;
    }
    if (aoti_torch_grad_mode_is_enabled()) return fake_error("a write that autograd sees");
    if (!strcmp(name, "aten::unsqueeze"))
        handle = fake_unsqueeze(handle);
    else if (!strcmp(name, "aten::narrow"))
        handle = fake_narrow(handle, (int64_t)stack[3]);
    else if (!strcmp(name, "aten::zero_"))
        fake_bump(handle); /* of an empty part: nothing to write */
    else
        return fake_error("no such operator");
    memcpy(&stack[0], &handle, sizeof handle);
    return 0;
}

torch_error torch_call_dispatcher(const char *name, const char *overload, torch_ivalue *stack,
                                  uint64_t version)
{
    (void)version;
    if (*overload) return fake_error("no such overload");
    count(name);
    if (!strncmp(name, "aten::", 6)) return run_aten(name, stack);
    if (!fake_run(name, "CompositeExplicitAutograd", stack)) return fake_error("no such operator");
    const char *words = fake_raised();
    return words ? fake_error(words) : 0;
}
