/* arena.c -- memory of one compilation or one signature, freed at once
 *
 *   head ─▶ [header|piece|zone|piece|zone|   free   ] ─▶ [header|piece|zone|...] ─▶ NULL
 *
 * Pieces are cut from blocks that double in size; a piece that does not fit starts a new block,
 * what the old one had left is given up. Under AddressSanitizer everything but the pieces is
 * poisoned, with a zone after each piece, so that writing past one is reported as it would be for
 * malloc. Elsewhere zones take no room.
 */
#include "core.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#endif

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>
enum { ARENA_ZONE = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
enum { ARENA_ZONE = 0 };
#endif

enum { ARENA_ALIGN = 16, ARENA_FIRST = 4096, ARENA_LARGEST = 1 << 20 };

struct wick_arena_block {
    struct wick_arena_block *next;
    size_t capacity, used;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

static struct wick_arena_block *add_block(wick_arena *arena, size_t needed)
{
    size_t capacity = arena->head ? arena->head->capacity * 2 : ARENA_FIRST;
    if (capacity > ARENA_LARGEST) capacity = ARENA_LARGEST;
    if (capacity < needed) capacity = needed;
    struct wick_arena_block *block = wick_calloc(1, sizeof *block + capacity);
    if (!block) return NULL;
    block->capacity = capacity;
    block->next = arena->head;
    arena->head = block;
    ASAN_POISON_MEMORY_REGION(block->data, capacity);
    return block;
}

void *wick_arena_alloc(wick_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    /* Two pieces of size 0 still have two addresses. */
    size_t room = ((bytes ? bytes : 1) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN + ARENA_ZONE;
    struct wick_arena_block *block = arena->head;
    if (!block || block->capacity - block->used < room) block = add_block(arena, room);
    if (!block) return NULL;
    unsigned char *piece = block->data + block->used;
    block->used += room;
    ASAN_UNPOISON_MEMORY_REGION(piece, bytes);
    return piece;
}

char *wick_arena_strndup(wick_arena *arena, const char *s, size_t n)
{
    n = strnlen(s, n);
    char *copy = wick_arena_alloc(arena, n + 1);
    if (copy) memcpy(copy, s, n);
    return copy;
}

void wick_arena_free(wick_arena *arena)
{
    struct wick_arena_block *block = arena->head;
    while (block) {
        struct wick_arena_block *next = block->next;
        ASAN_UNPOISON_MEMORY_REGION(block->data, block->capacity);
        wick_free(block);
        block = next;
    }
    arena->head = NULL;
}
