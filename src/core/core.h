/* core.h -- the ground everything stands on: context, memory, text, element types, shapes, files,
 * processes
 *
 * Depends on libc (and xxHash for hashing). One section per .c file of this folder.
 */
#ifndef WICK_CORE_H
#define WICK_CORE_H

#include <wick/types.h>

/* Forwards a failure. Not in a function that owns something: there, `goto done`. */
#define WICK_TRY(call)                                                                             \
    do {                                                                                           \
        wick_status try_status_ = (call);                                                          \
        if (try_status_ != WICK_OK) return try_status_;                                            \
    } while (0)

#define WICK_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- ctx.c: errors as values ---- */

/* A context in the caller's storage; `services` NULL takes the plain host's. deinit frees the
 * message. */
void wick_ctx_init(wick_ctx *ctx, const wick_services *services);
void wick_ctx_deinit(wick_ctx *ctx);
/* Forgets the last failure, so that the context can be used again. */
void wick_ctx_clear(wick_ctx *ctx);
/* Records the first failure's words and returns `status` (never WICK_OK). The public inline of the
 * same name is in op.h, which the library does not include. Thread safe: the first caller wins. */
WICK_PRINTF(3, 4) wick_status wick_fail(wick_ctx *ctx, wick_status status, const char *format, ...);
#ifdef __clang_analyzer__ /* it cannot see that a failure is never WICK_OK */
#define wick_fail(ctx, status, ...) ((void)(wick_fail)(ctx, status, __VA_ARGS__), (status))
#endif
/* Puts words in front of the recorded message, as in "relu: " + "x is i32, ...". Keeps it if out of
 * memory. */
WICK_PRINTF(2, 3) void wick_ctx_prefix(wick_ctx *ctx, const char *format, ...);
/* Puts words behind it. */
WICK_PRINTF(2, 3) void wick_ctx_suffix(wick_ctx *ctx, const char *format, ...);
const char *wick_ctx_message(const wick_ctx *ctx);
/* The services of a program without torch: messages, and threads of our own. */
extern const wick_services wick_plain_services;
wick_status wick_plain_fail(wick_ctx *ctx, wick_status status, const char *format, va_list args);

/* ---- parallel.c ---- */

wick_status wick_plain_parallel(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body, void *arg);
void wick_set_threads(int n);

/* ---- memory.c: one door to the heap, so that tests can close it ---- */

/* Like malloc, calloc, realloc, free; NULL when out of memory or when a failure is injected. Size 0
 * gives a pointer. */
void *wick_malloc(size_t bytes);
void *wick_calloc(size_t count, size_t bytes);
void *wick_realloc(void *old, size_t bytes);
void wick_free(void *p);
char *wick_strdup(const char *s);
/* The n-th allocation from now on fails (1: the next one), and every later one works; 0 stops
 * injecting. Per thread. */
void wick_memory_fail_after(long n);
/* Blocks given out and not freed, over all threads. */
long wick_memory_live(void);

/* ---- arena.c: memory of one compilation or one signature, freed at once ---- */

/* In front of what runs in every call: such functions stand side by side in the program, since
 * there, after torch's own code, memory that is touched costs more than instructions. */
#define WICK_HOT __attribute__((hot))
#define WICK_OUTLINE __attribute__((noinline))    /* what is not always needed stands by itself */
#define WICK_COLD __attribute__((cold, noinline)) /* and what runs in few, out of their way */

typedef struct wick_arena {
    struct wick_arena_block *head;
} wick_arena; /* {0} is an empty one */

/* Zeroed, aligned to 16; NULL when out of memory. */
void *wick_arena_alloc(wick_arena *arena, size_t bytes);
char *wick_arena_strndup(wick_arena *arena, const char *s, size_t n);
void wick_arena_free(wick_arena *arena);

/* ---- text.c: a string that grows ---- */

/* {0} is empty. Out of memory is remembered: check `failed` once, at the end. */
typedef struct wick_text {
    char *data; /* NUL-terminated once anything was added; use wick_text_str, which is never NULL */
    size_t size;
    size_t capacity;
    bool failed;
} wick_text;

void wick_text_add(wick_text *t, const char *s);
void wick_text_addn(wick_text *t, const char *s, size_t n);
WICK_PRINTF(2, 3) void wick_text_printf(wick_text *t, const char *format, ...);
void wick_text_vprintf(wick_text *t, const char *format, va_list args);
const char *wick_text_str(const wick_text *t);
void wick_text_free(wick_text *t);
/* Puts '?' for every byte of a string that is no UTF-8, the end of one that was cut included. */
void wick_make_utf8(char *s);

/* ---- hash.c ---- */

typedef struct wick_hash {
    uint64_t high, low;
} wick_hash; /* 128 bits of XXH3 */

wick_hash wick_hash_bytes(const void *data, size_t bytes);
/* 32 hexadecimal digits and a NUL. */
void wick_hash_hex(wick_hash hash, char out[33]);

/* ---- dtype.c ---- */

/* "bf16"; "none" for WICK_NONE and anything else. */
const char *wick_dtype_name(int dtype);
/* "wick_bf16", "float", "int64_t" */
const char *wick_dtype_c_type(int dtype);
/* Bytes of one element; 0 for WICK_NONE. */
size_t wick_dtype_size(int dtype);
/* What it is summed in: f32 for the floats, f64 for f64, i64 for integers and bool. */
wick_dtype wick_dtype_accumulate(int dtype);
bool wick_dtype_is_float(int dtype);
/* The type of that spelling, or WICK_NONE. `*reserved` says that it is one that Wick keeps for
 * later (fp8, complex ...). */
wick_dtype wick_dtype_parse(const char *s, size_t n, bool *reserved);

/* ---- shape.c: sizes and strides, in elements ---- */

int64_t wick_shape_numel(int dim, const int64_t *size); /* -1 when it does not fit 63 bits */
void wick_shape_contiguous_strides(int dim, const int64_t *size, int64_t *stride);
/* Row-major without gaps; sizes of 1 may have any stride; empty tensors are contiguous; stride NULL
 * is contiguous. */
bool wick_shape_is_contiguous(int dim, const int64_t *size, const int64_t *stride);
/* Two different indices may name one element. Exact for what slicing, transposing and expanding
 * make. */
bool wick_shape_overlaps_itself(int dim, const int64_t *size, const int64_t *stride);
typedef enum wick_overlap {
    WICK_OVERLAP_NONE,
    WICK_OVERLAP_EXACT,
    WICK_OVERLAP_PARTIAL
} wick_overlap;
/* How two tensors share memory. EXACT: same address, type size, sizes and strides. Slices that
 * interleave without sharing an element (x[::2] and x[1::2], left and right columns) are NONE; what
 * cannot be decided is PARTIAL. */
wick_overlap wick_shape_overlap(const wick_view *a, size_t a_bytes, const wick_view *b,
                                size_t b_bytes);
/* dst[i] = src[i] for tensors of equal sizes and any strides; element_bytes 1, 2, 4 or 8. */
void wick_shape_copy(int dim, const int64_t *size, void *dst, const int64_t *dst_stride,
                     const void *src, const int64_t *src_stride, size_t element_bytes);
/* "[2, 3]" */
void wick_shape_print(wick_text *out, int dim, const int64_t *size);

/* ---- file.c ---- */

/* Appends the folder in which Wick keeps what it makes: `given`, else $WICK_CACHE_DIR, else the
 * user's. Nothing is appended where there is none. */
void wick_cache_root(wick_text *out, const char *given);
/* The whole file, NUL-terminated (the NUL is not counted). Owned by the caller: wick_free. */
wick_status wick_file_read(wick_ctx *ctx, const char *path, char **out, size_t *out_bytes);
/* Written privately beside it and renamed, so that a reader sees the old bytes or the new, never
 * half. */
wick_status wick_file_write(wick_ctx *ctx, const char *path, const void *data, size_t bytes);
bool wick_file_exists(const char *path);
/* A new private folder under $TMPDIR or /tmp, named after `stem`. Owned: wick_free, after
 * wick_dir_remove. */
wick_status wick_dir_temporary(wick_ctx *ctx, const char *stem, char **out);
/* Removes the folder and the files in it, one level of folders deep; silent about what is not
 * there. */
void wick_dir_remove(const char *path);
/* Absolute, without symbolic links; owned. */
wick_status wick_path_absolute(wick_ctx *ctx, const char *path, char **out);

/* ---- process.c: argv, never a shell ---- */

typedef struct wick_process {
    int exit_code;    /* 128 + n when signal n ended it */
    wick_text output; /* stdout and stderr together */
} wick_process;

/* Runs argv[0] (found on PATH) to its end with stdin closed and the C locale. A program that fails
 * is not an error here (look at exit_code); one that cannot be started is: WICK_EIO. Several may
 * run at once: start, then finish each. */
typedef struct wick_child {
    int pid;
    int output_fd;
} wick_child;
wick_status wick_process_start(wick_ctx *ctx, const char *const *argv, wick_child *out);
wick_status wick_process_finish(wick_ctx *ctx, wick_child *child, wick_process *out);
wick_status wick_process_run(wick_ctx *ctx, const char *const *argv, wick_process *out);
void wick_process_free(wick_process *p);

#endif /* WICK_CORE_H */
