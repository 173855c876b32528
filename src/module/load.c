/* load.c -- a module's file becomes operators
 *
 * A module is a shared object with one exported table. It is opened once and never closed: code
 * that a call may be running, and text that messages point into, stay where they are. The file's
 * identity is checked before the loader runs any of it, as far as that can be told: an ELF header
 * of this machine, and our table's symbol.
 */
#include "module.h"

#include "cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#if defined(__x86_64__)
enum { THIS_MACHINE = EM_X86_64 };
#else
enum { THIS_MACHINE = EM_AARCH64 };
#endif

/* Every part that the headers promise lies inside the file. Mapping a file cut short would end the
 * process (SIGBUS), and dlopen's words for a text file are poor, so both are looked for first. */
static bool is_whole(FILE *f, const Elf64_Ehdr *header, uint64_t file_bytes)
{
    Elf64_Phdr part;
    uint64_t sections = (uint64_t)header->e_shnum * header->e_shentsize;
    if (header->e_phentsize != sizeof part || header->e_shoff > file_bytes) return false;
    if (sections > file_bytes - header->e_shoff) return false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (fseek(f, (long)(header->e_phoff + i * sizeof part), SEEK_SET) != 0) return false;
        if (fread(&part, sizeof part, 1, f) != 1) return false;
        if (part.p_offset > file_bytes || part.p_filesz > file_bytes - part.p_offset) return false;
    }
    return true;
}

static wick_status check_file(wick_ctx *ctx, const char *path)
{
    Elf64_Ehdr header = {0};
    FILE *f = fopen(path, "rb");
    if (!f) return wick_fail(ctx, WICK_EIO, "%s: %s", path, strerror(errno));
    size_t n = fread(&header, 1, sizeof header, f);
    long bytes = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    bool elf = n >= SELFMAG && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
    bool ours = n == sizeof header && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                header.e_machine == THIS_MACHINE;
    bool whole = ours && bytes > 0 && is_whole(f, &header, (uint64_t)bytes);

    fclose(f);
    if (!elf) return wick_fail(ctx, WICK_EIO, "%s: not a Wick module (not a shared object)", path);
    if (n == sizeof header && !ours)
        return wick_fail(ctx, WICK_EIO, "%s: a shared object for another kind of machine", path);
    if (!whole) return wick_fail(ctx, WICK_EIO, "%s: truncated: build or copy it again", path);
    return WICK_OK;
}

/* The system's loader takes a name that it knows for the library that it has: a module that was
 * built again would never be read. So each further file at a path goes by a name of its own, with
 * one more slash in front of the last part. A mapped file keeps its inode, so two files never look
 * like one. */
typedef struct opened_file {
    struct opened_file *earlier;
    dev_t device;
    ino_t inode;
    char path[];
} opened_file;

/* How many other files were opened at this path before this one; -1 when out of memory. */
static int count_earlier(const char *path, const struct stat *file)
{
    static opened_file *latest;
    size_t bytes = strlen(path) + 1;
    bool known = false;
    int n = 0;

    wick_registry_lock();
    for (const opened_file *o = latest; o; o = o->earlier) {
        if (strcmp(o->path, path) != 0) continue;
        bool same = o->device == file->st_dev && o->inode == file->st_ino;
        n = same ? 0 : n + 1;
        known = known || same;
    }
    opened_file *o = known ? NULL : wick_malloc(sizeof *o + bytes);
    if (o) {
        *o = (opened_file){.earlier = latest, .device = file->st_dev, .inode = file->st_ino};
        memcpy(o->path, path, bytes);
        latest = o;
    }
    wick_registry_unlock();
    return known || o ? n : -1;
}

/* The name to open a module by: absolute, since a bare one would be looked for among the system's
 * libraries. */
static wick_status loader_name(wick_ctx *ctx, const char *path, wick_text *out)
{
    char *absolute = NULL;
    struct stat file;

    WICK_TRY(wick_path_absolute(ctx, path, &absolute));
    int earlier = stat(absolute, &file) == 0 ? count_earlier(absolute, &file) : 0;
    const char *last = strrchr(absolute, '/');
    wick_text_addn(out, absolute, (size_t)(last - absolute));
    for (int i = 0; i < earlier; i++)
        wick_text_add(out, "/");
    wick_text_add(out, last);
    wick_free(absolute);
    return out->failed || earlier < 0 ? wick_fail(ctx, WICK_ENOMEM, "out of memory") : WICK_OK;
}

/* ---- device code ---- */

static int64_t fact(wick_ctx *ctx, int32_t which)
{
    const wick_cuda_facts *facts = NULL;
    if (wick_cuda_device_facts(ctx, ctx->device, &facts) != WICK_OK) return 1;
    switch (which) {
    case WICK_FACT_MULTIPROCESSORS: return facts->multiprocessors;
    case WICK_FACT_L2_BYTES: return facts->l2_bytes;
    case WICK_FACT_ARCH: return facts->arch;
    default: return 0;
    }
}

/* A module links nothing, so it is told how to reach the driver. */
static void connect_devices(const wick_module_table *table)
{
    for (int64_t i = 0; i < table->n_ops; i++) {
        for (int64_t v = 0; v < table->ops[i].n_variants; v++) {
            wick_device *device = table->ops[i].variants[v]->device;
            if (!device) continue;
            device->launch = wick_cuda_launch;
            device->fact = fact;
        }
    }
}

wick_status wick_module_open(wick_ctx *ctx, const char *path, const wick_module_table **out)
{
    wick_text name = {0};
    WICK_TRY(check_file(ctx, path));
    wick_status s = loader_name(ctx, path, &name);
    void *library = s == WICK_OK ? dlopen(name.data, RTLD_NOW | RTLD_LOCAL) : NULL;
    wick_text_free(&name);
    if (s != WICK_OK) return s;
    if (!library) return wick_fail(ctx, WICK_EIO, "%s: cannot be loaded: %s", path, dlerror());
    const wick_module_table *table = dlsym(library, WICK_MODULE_SYMBOL);
    if (!table || table->magic != WICK_MODULE_MAGIC) {
        dlclose(library);
        return wick_fail(ctx, WICK_EIO,
                         "%s: a shared object, but not a Wick module (it exports no %s)", path,
                         WICK_MODULE_SYMBOL);
    }
    if (table->abi != WICK_ABI) {
        unsigned abi = table->abi;
        dlclose(library);
        return wick_fail(ctx, WICK_EIO,
                         "%s: built for Wick's ABI %u, this is ABI %u: rebuild it with this "
                         "version (wick build)",
                         path, abi, WICK_ABI);
    }
    connect_devices(table);
    *out = table;
    return WICK_OK;
}

wick_status wick_module_load(wick_ctx *ctx, const char *path, wick_module **out)
{
    wick_define what = {.path = path, .default_ns = "local"};
    wick_ctx_clear(ctx);
    WICK_TRY(wick_module_open(ctx, path, &what.table));
    return wick_module_define(ctx, &what, out);
}

int64_t wick_module_count(const wick_module *module) { return module->n_ops; }

wick_op *wick_module_op(const wick_module *module, int64_t index)
{
    return index >= 0 && index < module->n_ops ? module->ops[index] : NULL;
}
