/* instrumented.c -- the functions that a module calls so that it can be watched
 *
 * gcc and clang, asked for -fsanitize=thread, call a function before each read and write of memory
 * that others might see, and another in the place of each atomic. Their own library of these
 * functions must be there before a program starts; these need not, and tell watch.c. What the
 * linker is asked to --wrap is the C library's: what it reads and writes, gives back and locks.
 *
 * A module finds them by name (wick_watch_offer), which is why they have names of theirs.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "trial.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

/* No library of theirs is linked; lines are kept for the report; the code is as near to the source
 * as -O1 leaves it: memset and the like stay calls. */
const char *const wick_watch_flags[] = {
    "-fsanitize=thread",
    "-O1",
    "-g",
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-fno-builtin-memset",
    "-nodefaultlibs",
    "-Wl,-z,undefs",
    "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset,--wrap=free,--wrap=realloc",
    "-Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock",
    "-Wl,--wrap=pthread_spin_lock,--wrap=pthread_spin_trylock,--wrap=pthread_spin_unlock",
    "-Wl,--wrap=mtx_lock,--wrap=mtx_trylock,--wrap=mtx_unlock",
    "-Wl,--wrap=pthread_once,--wrap=call_once",
    "-lc",
    "-lgcc",
    "-Wno-unused-command-line-argument",
    NULL,
};

wick_status wick_watch_offer(wick_ctx *ctx)
{
    Dl_info us;
    if (dladdr((const void *)wick_watch_flags, &us) &&
        dlopen(us.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        return WICK_OK;
    return wick_fail(ctx, WICK_ENOTSUP, "a module cannot be watched here: %s", dlerror());
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WATCHED_BY_OTHERS 1
#endif
#endif
#if !defined(__SANITIZE_THREAD__) && !defined(WATCHED_BY_OTHERS)

/* The function after it has that name. */
#define NAMED(type, name, label, parameters)                                                       \
    __attribute__((visibility("default"))) type name parameters __asm__(label);                    \
    type name parameters

/* Where the function that this is written in was called from. */
#define CALLER ((const char *)__builtin_return_address(0) - 1)

/* ---- reads and writes ---- */

#define TOUCH(name, label, bytes, kind)                                                            \
    NAMED(void, name, "__tsan_" label, (const void *address))                                      \
    {                                                                                              \
        wick_watch_touch(address, bytes, kind, CALLER);                                            \
    }

/* What is read and written at once is, to us, a write. */
#define TOUCHES(n)                                                                                 \
    TOUCH(read##n, "read" #n, n, WICK_TOUCH_READ)                                                  \
    TOUCH(write##n, "write" #n, n, WICK_TOUCH_WRITE)                                               \
    TOUCH(read_write##n, "read_write" #n, n, WICK_TOUCH_WRITE)                                     \
    TOUCH(unaligned_read##n, "unaligned_read" #n, n, WICK_TOUCH_READ)                              \
    TOUCH(unaligned_write##n, "unaligned_write" #n, n, WICK_TOUCH_WRITE)                           \
    TOUCH(unaligned_read_write##n, "unaligned_read_write" #n, n, WICK_TOUCH_WRITE)                 \
    TOUCH(volatile_read##n, "volatile_read" #n, n, WICK_TOUCH_READ)                                \
    TOUCH(volatile_write##n, "volatile_write" #n, n, WICK_TOUCH_WRITE)                             \
    TOUCH(unaligned_volatile_read##n, "unaligned_volatile_read" #n, n, WICK_TOUCH_READ)            \
    TOUCH(unaligned_volatile_write##n, "unaligned_volatile_write" #n, n, WICK_TOUCH_WRITE)

TOUCHES(1)
TOUCHES(2)
TOUCHES(4)
TOUCHES(8)
TOUCHES(16)

NAMED(void, read_range, "__tsan_read_range", (const void *address, size_t bytes))
{
    wick_watch_touch(address, bytes, WICK_TOUCH_READ, CALLER);
}

NAMED(void, write_range, "__tsan_write_range", (const void *address, size_t bytes))
{
    wick_watch_touch(address, bytes, WICK_TOUCH_WRITE, CALLER);
}

/* Calls of these two, and by one name or the other: gcc calls the C library, clang its own. */
#define COPY(name, label, function)                                                                \
    NAMED(void *, name, label, (void *to, const void *from, size_t bytes))                         \
    {                                                                                              \
        wick_watch_touch(from, bytes, WICK_TOUCH_READ, CALLER);                                    \
        wick_watch_touch(to, bytes, WICK_TOUCH_WRITE, CALLER);                                     \
        return function(to, from, bytes);                                                          \
    }
#define FILL(name, label)                                                                          \
    NAMED(void *, name, label, (void *to, int with, size_t bytes))                                 \
    {                                                                                              \
        wick_watch_touch(to, bytes, WICK_TOUCH_WRITE, CALLER);                                     \
        return memset(to, with, bytes);                                                            \
    }

COPY(wrap_memcpy, "__wrap_memcpy", memcpy)
COPY(wrap_memmove, "__wrap_memmove", memmove)
FILL(wrap_memset, "__wrap_memset")
COPY(tsan_memcpy, "__tsan_memcpy", memcpy)
COPY(tsan_memmove, "__tsan_memmove", memmove)
FILL(tsan_memset, "__tsan_memset")

/* ---- functions begin and end, which is nothing to us ---- */

NAMED(void, init, "__tsan_init", (void)) {}
NAMED(void, func_entry, "__tsan_func_entry", (const void *caller)) { (void)caller; }
NAMED(void, func_exit, "__tsan_func_exit", (void)) {}
NAMED(void, ignore_begin, "__tsan_ignore_thread_begin", (void)) {}
NAMED(void, ignore_end, "__tsan_ignore_thread_end", (void)) {}

/* ---- atomics ---- */

static bool acquires(int order) { return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE; }

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void before_atomic(const volatile void *address, size_t bytes, int kind, int order,
                          const void *code)
{
    const void *plain = (const void *)(uintptr_t)address;
    wick_watch_touch(plain, bytes, kind | WICK_TOUCH_ATOMIC, code);
    if (acquires(order)) wick_watch_acquire(plain);
    if (kind == WICK_TOUCH_WRITE && releases(order)) wick_watch_release(plain);
}

/* One strand runs at a time, so the operation itself may be of the strictest order. */
#define ATOMIC_UPDATE(bits, type, name, builtin)                                                   \
    NAMED(type, name##bits, "__tsan_atomic" #bits "_" #name,                                       \
          (volatile type * address, type value, int order))                                        \
    {                                                                                              \
        before_atomic(address, sizeof(type), WICK_TOUCH_WRITE, order, CALLER);                     \
        return builtin(address, value, __ATOMIC_SEQ_CST);                                          \
    }

#define ATOMIC_EXCHANGE_IF(bits, type, name)                                                       \
    NAMED(int, name##bits, "__tsan_atomic" #bits "_" #name,                                        \
          (volatile type * address, type * expected, type value, int order, int otherwise))        \
    {                                                                                              \
        (void)otherwise;                                                                           \
        before_atomic(address, sizeof(type), WICK_TOUCH_WRITE, order, CALLER);                     \
        type there = *expected;                                                                    \
        bool done = __atomic_compare_exchange_n(address, &there, value, false, __ATOMIC_SEQ_CST,   \
                                                __ATOMIC_SEQ_CST);                                 \
        *expected = there;                                                                         \
        return done;                                                                               \
    }

#define ATOMICS(bits, type)                                                                        \
    NAMED(type, load##bits, "__tsan_atomic" #bits "_load",                                         \
          (const volatile type *address, int order))                                               \
    {                                                                                              \
        before_atomic(address, sizeof(type), WICK_TOUCH_READ, order, CALLER);                      \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    NAMED(void, store##bits, "__tsan_atomic" #bits "_store",                                       \
          (volatile type * address, type value, int order))                                        \
    {                                                                                              \
        before_atomic(address, sizeof(type), WICK_TOUCH_WRITE, order, CALLER);                     \
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                        \
    }                                                                                              \
    NAMED(type, exchange_val##bits, "__tsan_atomic" #bits "_compare_exchange_val",                 \
          (volatile type * address, type expected, type value, int order, int otherwise))          \
    {                                                                                              \
        (void)otherwise;                                                                           \
        before_atomic(address, sizeof(type), WICK_TOUCH_WRITE, order, CALLER);                     \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST,            \
                                    __ATOMIC_SEQ_CST);                                             \
        return expected;                                                                           \
    }                                                                                              \
    ATOMIC_EXCHANGE_IF(bits, type, compare_exchange_strong)                                        \
    ATOMIC_EXCHANGE_IF(bits, type, compare_exchange_weak)                                          \
    ATOMIC_UPDATE(bits, type, exchange, __atomic_exchange_n)                                       \
    ATOMIC_UPDATE(bits, type, fetch_add, __atomic_fetch_add)                                       \
    ATOMIC_UPDATE(bits, type, fetch_sub, __atomic_fetch_sub)                                       \
    ATOMIC_UPDATE(bits, type, fetch_and, __atomic_fetch_and)                                       \
    ATOMIC_UPDATE(bits, type, fetch_or, __atomic_fetch_or)                                         \
    ATOMIC_UPDATE(bits, type, fetch_xor, __atomic_fetch_xor)                                       \
    ATOMIC_UPDATE(bits, type, fetch_nand, __atomic_fetch_nand)

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

/* A fence orders whatever comes after it: more than it must, so that nothing is said that is not
 * so. */
NAMED(void, thread_fence, "__tsan_atomic_thread_fence", (int order))
{
    const void *all = wick_watch_flags; /* any address that is no atomic's */
    (void)order;
    wick_watch_acquire(all);
    wick_watch_release(all);
}

NAMED(void, signal_fence, "__tsan_atomic_signal_fence", (int order)) { (void)order; }

/* ---- memory that is given back ---- */

NAMED(void, wrap_free, "__wrap_free", (void *memory)) { wick_watch_free(memory); }

NAMED(void *, wrap_realloc, "__wrap_realloc", (void *memory, size_t bytes))
{
    if (!wick_watch_is_inside() || !memory) return realloc(memory, bytes);
    void *fresh = malloc(bytes);
    size_t there = malloc_usable_size(memory);
    if (!fresh) return NULL;
    memcpy(fresh, memory, there < bytes ? there : bytes);
    wick_watch_free(memory);
    return fresh;
}

/* ---- locks ---- */

#define LOCK(type, name, success)                                                                  \
    NAMED(int, wrap_##name, "__wrap_" #name, (type * lock))                                        \
    {                                                                                              \
        int result = name(lock);                                                                   \
        if (result == (success)) wick_watch_acquire((const void *)(uintptr_t)lock);                \
        return result;                                                                             \
    }
#define UNLOCK(type, name)                                                                         \
    NAMED(int, wrap_##name, "__wrap_" #name, (type * lock))                                        \
    {                                                                                              \
        wick_watch_release((const void *)(uintptr_t)lock);                                         \
        return name(lock);                                                                         \
    }
LOCK(pthread_mutex_t, pthread_mutex_lock, 0)
LOCK(pthread_mutex_t, pthread_mutex_trylock, 0)
UNLOCK(pthread_mutex_t, pthread_mutex_unlock)
LOCK(pthread_spinlock_t, pthread_spin_lock, 0)
LOCK(pthread_spinlock_t, pthread_spin_trylock, 0)
UNLOCK(pthread_spinlock_t, pthread_spin_unlock)
LOCK(mtx_t, mtx_lock, thrd_success)
LOCK(mtx_t, mtx_trylock, thrd_success)
UNLOCK(mtx_t, mtx_unlock)

/* Whoever comes later has waited for the first one. */
NAMED(int, wrap_pthread_once, "__wrap_pthread_once", (pthread_once_t * once, void (*run)(void)))
{
    int result = pthread_once(once, run);
    wick_watch_acquire(once);
    wick_watch_release(once);
    return result;
}

NAMED(void, wrap_call_once, "__wrap_call_once", (once_flag * once, void (*run)(void)))
{
    call_once(once, run);
    wick_watch_acquire(once);
    wick_watch_release(once);
}

#endif /* not watched by others */
