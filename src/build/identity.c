/* identity.c -- what a build depends on besides its text: the compiler, its environment, this CPU
 *
 * A compiler is recognised by its bytes, not by what it says of itself: asking would start a
 * process on every load. (A wrapper script hides what it wraps; whoever upgrades the compiler
 * behind one clears the cache.)
 */
#include "builder.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static void add_bytes(wick_text *out, const char *path)
{
    char *data = NULL, hex[33];
    size_t n = 0;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    if (wick_file_read(&ctx, path, &data, &n) == WICK_OK) {
        wick_hash_hex(wick_hash_bytes(data, n), hex);
        wick_text_printf(out, "%s %s\n", path, hex);
    }
    wick_free(data);
    wick_ctx_deinit(&ctx);
}

void wick_identity_compiler(wick_text *out, const char *program)
{
    static const char *const variables[] = {"CPATH",           "C_INCLUDE_PATH",
                                            "LIBRARY_PATH",    "COMPILER_PATH",
                                            "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH"};
    wick_text path = {0};
    if (wick_toolchain_locate(program, &path)) add_bytes(out, wick_text_str(&path));
    wick_text_free(&path);
    for (int i = 0; i < WICK_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value) wick_text_printf(out, "%s=%s\n", variables[i], value);
    }
}

void wick_identity_cpu(wick_text *out)
{
#if defined(__x86_64__)
    static const unsigned leaves[][2] = {{1, 0}, {7, 0}, {7, 1}, {0x80000001u, 0}};
    for (int i = 0; i < WICK_COUNT(leaves); i++) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        __get_cpuid_count(leaves[i][0], leaves[i][1], &a, &b, &c, &d);
        /* Leaf 1 also says which core answered, and whether the system saves wide registers. */
        if (leaves[i][0] == 1) b = 0;
        wick_text_printf(out, "%x %x %x %x\n", a, b, c, d);
    }
#else
    add_bytes(out, "/proc/cpuinfo");
#endif
}
