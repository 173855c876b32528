/* builder.h -- from the text of an operator file to a module: scan, glue, compilers, diagnostics
 *
 *   op.c ──scan.c──▶ wick_scan ──glue.c──▶ one unit of C per element types and CPU level
 *                        │                      │ toolchain.c, jobs.c: cc, several at once
 *                        └──── diagnose.c ◀──── compiler's words ──▶ module.so
 *
 * What the build needs to know of a file is in its wick_scan, which keeps its own copy of the text:
 * the source may go. Loading what was built is not this folder's business.
 */
#ifndef WICK_BUILDER_H
#define WICK_BUILDER_H

#include <wick/build.h>
#include <wick/glue.h>

#include "signature.h"

/* ---- c_lexer.c: C as far as the scan needs it ---- */

typedef enum wick_token_kind {
    WICK_TOKEN_END,
    WICK_TOKEN_NAME,
    WICK_TOKEN_STRING,
    WICK_TOKEN_OTHER /* a character literal, a number, or one character of punctuation */
} wick_token_kind;

typedef struct wick_token {
    wick_token_kind kind;
    const char *start; /* into the text; a string with its quotes */
    size_t size;
    int64_t line;
    int braces; /* depth at which it stands; a `{` counts for what follows it */
} wick_token;

enum { WICK_LEX_MAX_IFS = 64 };

/* Where the reading stands. Comments and preprocessor lines are passed over; of `#if {` `#else {`
 * only one brace is counted. */
typedef struct wick_lexer {
    const char *at, *end;
    int64_t line;
    int braces;
    bool line_start;
    int linkage; /* 1 after `extern`, 2 after its "C", 3 after `namespace` and in its name */
    int n_ifs;
    int ifs[WICK_LEX_MAX_IFS]; /* depth of braces at each open #if */
    /* Told of every directive, from its # to the end of its line; may be NULL. */
    void (*directive)(void *arg, const char *start, size_t size, int64_t line);
    void *directive_arg;
} wick_lexer;

void wick_lex_start(wick_lexer *lex, const char *text, size_t bytes);
wick_token wick_lex_next(wick_lexer *lex);
bool wick_token_is(const wick_token *token, const char *spelling);
/* Appends a string literal's bytes, escapes decoded. False at an escape that C does not know, or a
 * NUL. */
bool wick_token_decode(const wick_token *token, wick_text *out);
/* The line of the first `name` outside comments; 0 when there is none. */
int64_t wick_lex_find(const char *text, size_t bytes, const char *name);

/* ---- scan.c ---- */

typedef struct wick_scan_op {
    const char *name;
    int64_t line;                      /* of WICK_OP */
    wick_signature *signature;         /* complete: every variable has its types */
    int variables[WICK_MAX_VARIABLES]; /* of each variable of the signature: its index in the file's
                                        */
    bool has_cpu, has_cuda;            /* the text defines <name>_cpu, <name>_cuda */
    wick_tune *tune;                   /* from WICK_TUNE; NULL: none */
} wick_scan_op;

typedef struct wick_scan_kernel {
    const char *name, *params; /* params: as they are written, on one line */
    int64_t line;
} wick_scan_kernel;

typedef struct wick_scan {
    wick_arena arena;
    const char *file;            /* as the source named it */
    const char *folder;          /* absolute: where its own #include "..." looks */
    const char *package_include; /* of the package that it is part of; NULL: there is none */
    const char *text;
    size_t text_bytes;
    bool is_text;   /* the text was given; `file` is only its name */
    const char *ns; /* from WICK_NAMESPACE; NULL: none */
    int64_t ns_line;
    const char *doc; /* the comment at the head, without its marks; "" when there is none */
    int n_ops;
    wick_scan_op *ops;
    /* What the C compiler and what NVRTC or nvcc are given instead of the text (split.c). */
    const char *host_text;           /* the text itself, where there is no device code */
    const char *device_text;         /* NULL: there is none */
    const char *host_types;          /* in front of host_text: CUDA's types that C needs to know */
    const char *device_prelude;      /* in front of device_text: which headers there are */
    bool needs_cuda_headers;         /* device_text includes some of CUDA's own */
    const wick_scan_kernel *kernels; /* that WICK_LAUNCH may start */
    int n_kernels;
    bool needs_nvcc; /* it launches with <<<>>> */
    bool fast_math;  /* it says WICK_FAST_MATH */
    int n_knobs; /* of all WICK_TUNE together, in order of appearance: their places in ctx->tuned */
    const char *knobs[WICK_MAX_KNOBS];
    int n_variables; /* of all operators together, in order of appearance */
    wick_variable variables[WICK_MAX_VARIABLES];
} wick_scan;

/* Reads the operators out of a source. *out is to be freed in any case. Messages begin FILE:LINE:
 */
wick_status wick_scan_source(wick_ctx *ctx, const wick_source *source, wick_scan *out);
void wick_scan_free(wick_scan *scan);

/* WICK_OP(name, "text") or WICK_TUNE. */
typedef struct wick_scan_macro {
    const char *called;
    wick_token name;
    int64_t line;
    wick_text text; /* the literals joined and decoded; owned */
} wick_scan_macro;

/* Reads one from behind its (; *out is to be freed in any case. `what` the text is: for messages.
 */
wick_status wick_scan_macro_read(wick_ctx *ctx, const wick_scan *scan, wick_lexer *lex,
                                 const wick_token *called, const char *what, wick_scan_macro *out);
wick_status wick_scan_fail(wick_ctx *ctx, const wick_scan *scan, const wick_scan_macro *macro,
                           const char *words);
/* scan_tune.c: every WICK_TUNE. Part of wick_scan_source. */
wick_status wick_scan_tune(wick_ctx *ctx, wick_scan *scan);
/* An operator's choices for the table: all knobs of the file, in their places. */
void wick_scan_print_tune(wick_text *out, const wick_scan *scan, const wick_scan_op *op);
/* package.c: fills in package_include. Part of wick_scan_source. */
wick_status wick_scan_package(wick_ctx *ctx, wick_scan *scan);

/* split.c: fills in host_text, device_text and what goes with them. Part of wick_scan_source. */
wick_status wick_scan_split(wick_ctx *ctx, wick_scan *scan);
/* The namespace for the table: the file's, else the options', else NULL. Refuses what is not a C
 * identifier and what torch or Wick own; `wick` is for those who ask for it in the options. */
wick_status wick_scan_namespace(wick_ctx *ctx, const wick_scan *scan,
                                const wick_build_options *options, const char **out);
/* How many ways there are to choose one type per variable (1 without variables), and the index-th
 * of them; the last variable changes fastest, number 0 has every variable at its first type.
 * `types` has room for WICK_MAX_VARIABLES. */
int64_t wick_scan_combinations(const wick_scan *scan);
void wick_scan_combination(const wick_scan *scan, int64_t index, wick_dtype *types);
/* The index of the choice most likely to be called: the first in which T is f32. */
int64_t wick_scan_likely(const wick_scan *scan);
/* An operator is compiled where every variable of the file that it does not use has its first type.
 */
bool wick_scan_op_in(const wick_scan *scan, const wick_scan_op *op, const wick_dtype *types);

/* ---- glue.c ---- */

/* Device code that goes into a unit: a file of it. */
typedef struct wick_unit_code {
    int32_t arch;
    int ptx;
    const char *path;
    size_t bytes;
} wick_unit_code;

/* One file of generated C: a source with one choice of element types, for one level of CPUs. */
typedef struct wick_unit {
    const wick_scan *scan;
    const char *ns;
    wick_dtype types[WICK_MAX_VARIABLES];
    wick_isa isa;
    bool cuda;                  /* with the operators' CUDA versions */
    const wick_unit_code *code; /* embedded; none where it is compiled at the first launch */
    int n_code;
    int64_t code_of;   /* the unit that holds these bytes: all levels of CPUs share them */
    int64_t launchers; /* the unit whose launchers nvcc compiled */
} wick_unit;

/* Writes unit `which` of a module of n; the last one also holds the module's table. All operators
 * are in the table, also those that have no variant in any unit. The author's text comes last, so
 * that nothing in it can break what is generated, and as a copy: what is compiled is what was
 * scanned, whatever happens to the file meanwhile. `for_reading` names the file instead, if it is
 * all C. */
void wick_glue_write(wick_text *out, const wick_unit *units, int64_t n, int64_t which,
                     bool for_reading);
/* The unit as NVRTC, or nvcc in its stead, reads it. */
void wick_glue_write_device(wick_text *out, const wick_unit *unit);
/* The unit's launchers and kernels as nvcc reads them, where the file launches with <<<>>>. */
void wick_glue_write_launchers(wick_text *out, const wick_unit *unit, int64_t which);

/* ---- toolchain.c ---- */

typedef struct wick_args {
    wick_arena *arena;
    const char **items; /* NULL-terminated */
    int64_t count, capacity;
    bool failed; /* out of memory: check once, at the end */
} wick_args;

void wick_args_add(wick_args *args, const char *item);
void wick_args_split(wick_args *args, const char *items); /* at blanks; NULL adds nothing */
void wick_args_all(wick_args *args, const wick_args *from);

/* When a flag is given. */
typedef enum wick_flag_use {
    WICK_FLAG_ALWAYS,
    WICK_FLAG_RELEASE, /* without --debug */
    WICK_FLAG_DEBUG,
    WICK_FLAG_SANITIZE, /* `wick build --sanitize`: given as the options' flags */
    WICK_FLAG_NATIVE,
    WICK_FLAG_BASELINE,
    WICK_FLAG_X86_64_V3,
    WICK_FLAG_INCLUDE,
    WICK_FLAG_QUOTE,
    WICK_FLAG_PACKAGE,
    WICK_FLAG_OBJECT,
    WICK_FLAG_CHECK,
    WICK_FLAG_DEPENDS,
    WICK_FLAG_OUTPUT,
    WICK_FLAG_LINK,
    WICK_FLAG_LIBRARY,
    WICK_FLAG_DEVICE, /* kernels, by NVRTC or nvcc */
    WICK_FLAG_NVRTC,
    WICK_FLAG_DEVICE_DEBUG,
    WICK_FLAG_FAST_MATH,
    WICK_FLAG_NVCC,     /* files that launch with <<<>>> */
    WICK_FLAG_NVCC_LINK /* and their modules */
} wick_flag_use;

/* Every flag that Wick ever gives to a compiler, and why: what is run and what `wick show --flags`
 * says are the same table. */
typedef struct wick_flag {
    wick_flag_use use;
    const char *flag;
    const char *value; /* "DIR": it is followed by one, which the caller adds; NULL: it is not */
    const char *why;
} wick_flag;

extern const wick_flag wick_toolchain_flags[];
extern const int wick_toolchain_n_flags;
/* Adds the flags of one use. */
void wick_toolchain_add(wick_flag_use use, wick_args *out);

/* The compiler and our flags, all but inputs, outputs and -march. */
wick_status wick_toolchain_find(wick_ctx *ctx, wick_arena *arena, const wick_build_options *options,
                                wick_args *out);
/* Where a source's own #include "..." and <...> look. */
void wick_toolchain_folders(const wick_scan *scan, wick_args *out);
/* $CFLAGS and the options' flags: last on a command line, where they override ours and libraries
 * are found. */
void wick_toolchain_user_flags(const wick_build_options *options, wick_args *out);
/* The program that a name on the PATH, or a path, stands for; added to the text. */
bool wick_toolchain_locate(const char *name, wick_text *out);
/* There is one. */
bool wick_toolchain_on_path(const char *name);
/* "-march=native" and the like; NULL where there is none to give. */
const char *wick_toolchain_march(bool portable, wick_isa isa);

/* ---- install.c: where Wick's own files lie ---- */

/* The folder that holds wick/op.h; owned by the caller. */
wick_status wick_install_include(wick_ctx *ctx, char **out);
/* The path of a file that is installed with Wick ("wick_ops.so"). Owned: wick_string_free. */
wick_status wick_build_package_file(wick_ctx *ctx, const char *name, char **out);

/* ---- jobs.c: several compilers at once ---- */

typedef struct wick_job {
    wick_args argv;
    int64_t unit;     /* whose code it compiles */
    const char *what; /* for progress */
    bool started, finished;
    wick_child child;
    wick_process result;
} wick_job;

/* Runs them, as many at once as there are CPUs. Stops starting after the first that fails; *failed
 * is its index, or -1. All that were started are finished on return. */
wick_status wick_jobs_run(wick_ctx *ctx, wick_job *jobs, int64_t n,
                          const wick_build_options *options, int64_t *failed);
void wick_jobs_free(wick_job *jobs, int64_t n);

/* ---- diagnose.c ---- */

/* Turns a compiler's or linker's output into a failure whose first line begins FILE:LINE: of the
 * author's file. */
wick_status wick_diagnose_failure(wick_ctx *ctx, const wick_unit *units, int64_t n_units,
                                  int64_t which, const wick_process *result, const char *folder);
/* Appends a successful compiler's warnings, unless they are there already; `out` may be NULL. */
void wick_diagnose_warnings(wick_text *out, const wick_process *result, const char *folder);

/* ---- diagnose_launch.c ---- */

/* Adds a compiler's words, with kernels in the place of the functions behind WICK_LAUNCH. */
void wick_diagnose_launch_words(wick_text *out, const char *words, size_t size);
/* Adds what the kernel takes, if the words are about a launch on that line; or that there is none.
 */
void wick_diagnose_launch(wick_text *out, const wick_scan *scan, int64_t line, const char *words,
                          size_t size);

/* ---- describe.c: what a source says, without building it; src/cli stands on these ---- */

/* The operators of a source as a module's table has them, each with one variant, which tells what
 * versions there are and refuses to be called. Free with wick_build_list_free. */
wick_status wick_build_list(wick_ctx *ctx, const wick_source *source,
                            const wick_module_table **out);
void wick_build_list_free(const wick_module_table *table);

typedef enum wick_description {
    WICK_DESCRIBE_WORDS = 1,     /* every argument and result on a line of its own */
    WICK_DESCRIBE_SCHEMA = 2,    /* as torch has it */
    WICK_DESCRIBE_PROTOTYPE = 4, /* of the C function, if there is a version for the CPU */
    WICK_DESCRIBE_CUDA_PROTOTYPE = 8
} wick_description;

/* What a signature means, one of the above or several added up. Owned: wick_string_free. */
wick_status wick_build_describe(wick_ctx *ctx, const wick_op_entry *op, int what, char **out);
/* Whether there is a version for the CPU, or for GPUs. */
bool wick_build_has(const wick_op_entry *op, bool cuda);

/* One of the file's choices of types, from words such as "f32 i32"; NULL: the first. */
wick_status wick_build_read_types(wick_ctx *ctx, const wick_scan *scan, const char *words,
                                  wick_dtype *types);

/* ---- explain.c ---- */

/* Every argument, result and dim on a line of its own. */
void wick_explain_signature(wick_text *out, const wick_signature *sig);
/* The line about an operator's gradient. Fails when the second is not the first's. */
wick_status wick_explain_gradient(wick_ctx *ctx, const wick_op_entry *forward,
                                  const wick_op_entry *backward, wick_text *out);

/* What else a failed compiler's output tells: behind the message, what can be done about it. */
void wick_remedy_add(wick_ctx *ctx, const wick_process *result);
void wick_remedy_words(wick_ctx *ctx, const char *words);
/* The same for a failure of our own, before or after the compiler; its message gets FILE:1: in
 * front. */
void wick_remedy_own(wick_ctx *ctx, const char *file);

/* ---- build.c ---- */

/* What a build has to tell besides its outcome. Free with wick_build_report_free. */
typedef struct wick_build_report {
    wick_text warnings;
    wick_text depends; /* a line per file that the compiler read (depends.c); empty when one cannot
                          be described */
    wick_text log;     /* everything that a failed compiler said */
    bool unsettled;    /* a file was edited while the compiler ran: it may have read the old text or
                          the new */
} wick_build_report;

void wick_build_report_free(wick_build_report *report);

/* One choice of element types into a module at `output`. `report` may be NULL. */
wick_status wick_build_types(wick_ctx *ctx, const wick_scan *scan, const wick_dtype *types,
                             const wick_build_options *options, const char *output,
                             wick_build_report *report);
/* Lets the compiler read all choices but number `skip` (-1: all), without making code. */
wick_status wick_build_check(wick_ctx *ctx, const wick_scan *scan, int64_t skip,
                             const wick_build_options *options, wick_text *warnings);
/* Both at once: number `index` is built, all others are checked meanwhile. What is built may be
 * used even though another type has an error: there is none on WICK_OK. */
wick_status wick_build_first(wick_ctx *ctx, const wick_scan *scan, int64_t index,
                             const wick_build_options *options, const char *output,
                             wick_build_report *report);

/* ---- identity.c: what a build depends on besides its text ---- */

/* The compiler as a file (bytes, path), and the variables that it reads. */
void wick_identity_compiler(wick_text *out, const char *program);
/* What -march=native means here. */
void wick_identity_cpu(wick_text *out);

/* ---- depends.c: the files that went into a build ---- */

/* From the compiler's rules: one line per file with what it is recognised by. System headers by
 * size and time, all others by their bytes. Files in the folder `except` (the build's own) are left
 * out. False: some file cannot be described, so the build must not be kept. */
bool wick_depends_describe(wick_text *out, const char *rules, const char *except);
/* One more, if it is a file at all (what a flag names may be). False: it cannot be described. */
bool wick_depends_add(wick_text *out, const char *path);
/* Adds, for the authors' files in `folders` (absolute, in the order of the search): in the folders
 * before there is none of that name. */
void wick_depends_shadow(wick_text *out, const char *const *folders, int64_t n_folders);
/* None of the authors' files was touched since the file `since` was written: they are what the
 * compiler read. */
bool wick_depends_settled(const char *lines, const char *since);
/* Every file that the lines describe is as it was. */
bool wick_depends_hold(const char *lines);
/* The same for the author's own files: headers of the system and of the folder `installed` (may be
 * NULL) do not change while a process runs. */
bool wick_depends_hold_for(const char *lines, const char *installed);

/* ---- depfile.c ---- */

/* Writes a rule for make and ninja: `output` is made from the sources and from what `depends` (the
 * lines of depends.c) names. */
wick_status wick_depfile_write(wick_ctx *ctx, const char *path, const char *output,
                               const wick_source *sources, int64_t n_sources, const char *depends);

/* ---- cached.c ---- */

typedef struct wick_built {
    char *path;    /* the module, to be opened */
    char *folder;  /* a private folder to be removed after that; NULL: the module is in the cache */
    char *depends; /* what wick_depends_hold takes */
    char *kept;    /* where it was put in the cache, which stays when the folder is gone; or NULL */
    bool hit;      /* no compiler ran */
} wick_built;

/* What a build may tell while it is at work; all may be NULL. */
typedef struct wick_build_watch {
    void (*started)(void *arg, const char *file, const char *types);
    void (*waiting)(void *arg, const char *file,
                    long pid); /* another process is building the same */
    void (*finished)(void *arg, const char *file, bool ok);
    void *arg;
} wick_build_watch;

/* A module for one choice of element types: out of the cache, or built and put there. `index` >= 0:
 * as wick_build_first; -1: as wick_build_types with `types`. *out is to be freed in any case. */
wick_status wick_build_cached(wick_ctx *ctx, const wick_scan *scan, int64_t index,
                              const wick_dtype *types, const wick_build_options *options,
                              const wick_build_watch *watch, wick_built *out, wick_text *warnings);
void wick_built_free(wick_built *built);
/* The same, but only looks: out->hit says whether it is in the cache. */
wick_status wick_build_find_cached(wick_ctx *ctx, const wick_scan *scan, int64_t index,
                                   const wick_dtype *types, const wick_build_options *options,
                                   wick_built *out);

#endif /* WICK_BUILDER_H */
