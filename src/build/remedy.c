/* remedy.c -- troubles that are not in the source, and what can be done about them
 *
 * A compiler that is killed for memory, or finds the disk full, speaks of its own temporary files.
 * A person wants to know what happened and what to do.
 */
#include "builder.h"

#include <string.h>

#define MISSING_HEADER                                                                             \
    "a header is missing: install what it belongs to, or name its folder (in Python "              \
    "flags=[\"-I...\"] or extra_include_paths=[...], for every command CFLAGS=-I...)"

static const struct {
    const char *sign; /* in the compiler's output */
    const char *remedy;
} remedies[] = {
    {"No space left on device", "the disk is full: free some space, or set TMPDIR (and "
                                "WICK_CACHE_DIR) to a folder on another"},
    {"Disk quota exceeded", "your disk quota is used up: free some space, or set TMPDIR (and "
                            "WICK_CACHE_DIR) to another folder"},
    {"Read-only file system",
     "the compiler's temporary folder is read-only: set TMPDIR to one that can be written"},
    {"cannot make the temporary folder", "set TMPDIR to a folder that is there and can be written"},
    {"virtual memory exhausted",
     "the compiler ran out of memory: free some, raise the limit (ulimit -v), or split the file"},
    {"Cannot allocate memory",
     "the compiler ran out of memory: free some, raise the limit (ulimit -v), or split the file"},
    {"out of memory allocating",
     "the compiler ran out of memory: free some, raise the limit (ulimit -v), or split the file"},
    {"Killed signal terminated program",
     "the system ended the compiler, most likely for lack of memory: free some, or split the file"},
    {"ld: cannot find ", "a library is missing: install it, or name its folder "
                         "(extra_ldflags=[\"-L...\", \"-Wl,-rpath,...\"])"},
    {"unable to find library", "a library is missing: install it, or name its folder "
                               "(extra_ldflags=[\"-L...\", \"-Wl,-rpath,...\"])"},
    {"open source file \"cu", "CUDA's own headers are not here: `pip install nvidia-cuda-runtime` "
                              "brings them, or set CUDA_HOME to a toolkit"},
    {"open source file \"cooperative", "CUDA's own headers are not here: `pip install "
                                       "nvidia-cuda-runtime` brings them, or set CUDA_HOME to a "
                                       "toolkit"},
    {"open source file", MISSING_HEADER},
    {"nvrtc: error: unrecognized option",
     "NVRTC does not know one of the flags: look at extra_cuda_cflags and --cuda-flag"},
    {"file not found", MISSING_HEADER},
    {": No such file or directory", MISSING_HEADER},
    {"unrecognized command",
     "this compiler does not know one of the flags: look at flags=, CFLAGS and CC"},
    {"unknown argument",
     "this compiler does not know one of the flags: look at flags=, CFLAGS and CC"},
    {"installation problem, cannot exec",
     "the compiler's installation is not complete: reinstall it (apt install --reinstall gcc)"},
};

void wick_remedy_words(wick_ctx *ctx, const char *words)
{
    for (int i = 0; i < WICK_COUNT(remedies); i++)
        if (strstr(words, remedies[i].sign)) {
            wick_ctx_suffix(ctx, "\n%s", remedies[i].remedy);
            return;
        }
}

void wick_remedy_own(wick_ctx *ctx, const char *file)
{
    const char *message = wick_ctx_message(ctx);
    size_t n = strlen(file);
    if (strncmp(message, file, n) == 0 && message[n] == ':') return;
    wick_ctx_prefix(ctx, "%s:1: ", file);
    wick_remedy_words(ctx, wick_ctx_message(ctx));
}

void wick_remedy_add(wick_ctx *ctx, const wick_process *result)
{
    if (result->exit_code == 137) { /* SIGKILL */
        wick_ctx_suffix(ctx, "\nthe system ended the compiler, most likely for lack of memory: "
                             "free some, or split the file");
        return;
    }
    wick_remedy_words(ctx, wick_text_str(&result->output));
}
