/* test_arena.c -- pieces are zeroed, aligned and apart; all of them leave at once */
#include "walk.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

Test(arena, pieces_are_zeroed_aligned_and_apart)
{
    enum { PIECES = 2000 };
    static unsigned char *piece[PIECES];
    wick_arena arena = {0};
    for (int i = 0; i < PIECES; i++) {
        size_t bytes = (size_t)(i % 97);
        piece[i] = wick_arena_alloc(&arena, bytes);
        cr_assert_not_null(piece[i]);
        cr_assert_eq((uintptr_t)piece[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++) {
            cr_assert_eq(piece[i][j], 0);
        }
        memset(piece[i], i % 251 + 1, bytes);
    }
    for (int i = 0; i < PIECES; i++) {
        for (size_t j = 0; j < (size_t)(i % 97); j++) {
            cr_assert_eq(piece[i][j], i % 251 + 1, "piece %d was overwritten", i);
        }
    }
    cr_assert_lt(wick_memory_live(), 20, "blocks grow");
    wick_arena_free(&arena);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(arena, empty_pieces_have_their_own_address)
{
    wick_arena arena = {0};
    void *a = wick_arena_alloc(&arena, 0), *b = wick_arena_alloc(&arena, 0);
    cr_assert_not_null(a);
    cr_assert_neq(a, b);
    wick_arena_free(&arena);
}

Test(arena, a_piece_larger_than_any_block_fits)
{
    enum { LARGE = 5 << 20 };
    wick_arena arena = {0};
    char *small = wick_arena_strndup(&arena, "small", 5);
    char *large = wick_arena_alloc(&arena, LARGE);
    cr_assert_not_null(large);
    cr_assert_eq(large[0] | large[LARGE - 1], 0);
    memset(large, 1, LARGE);
    cr_assert_not_null(wick_arena_alloc(&arena, 1));
    cr_assert_str_eq(small, "small");
    wick_arena_free(&arena);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(arena, strndup_takes_n_characters_or_up_to_the_nul)
{
    wick_arena arena = {0};
    cr_assert_str_eq(wick_arena_strndup(&arena, "wick_core", 4), "wick");
    cr_assert_str_eq(wick_arena_strndup(&arena, "wick", 100), "wick");
    cr_assert_str_eq(wick_arena_strndup(&arena, "wick", 0), "");
    wick_arena_free(&arena);
}

Test(arena, freed_is_empty_and_usable)
{
    wick_arena arena = {0};
    wick_arena_free(&arena);
    cr_assert_not_null(wick_arena_alloc(&arena, 3));
    wick_arena_free(&arena);
    cr_assert_null(arena.head);
    cr_assert_not_null(wick_arena_alloc(&arena, 3));
    wick_arena_free(&arena);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(arena, absurd_sizes_give_null)
{
    wick_arena arena = {0};
    cr_assert_null(wick_arena_alloc(&arena, SIZE_MAX));
    cr_assert_null(wick_arena_alloc(&arena, SIZE_MAX - 15));
    cr_assert_not_null(wick_arena_alloc(&arena, 1));
    wick_arena_free(&arena);
}

static bool fill_three_blocks(void)
{
    wick_arena arena = {0};
    bool done = wick_arena_alloc(&arena, 3000) && wick_arena_alloc(&arena, 7000) &&
                wick_arena_strndup(&arena, "name", 4) && wick_arena_alloc(&arena, 100000);
    wick_arena_free(&arena);
    return done;
}

Test(arena, every_allocation_may_fail)
{
    cr_assert_eq(walk_allocation_failures(fill_three_blocks), 3);
}

#ifdef HAS_ASAN
Test(arena, what_is_not_a_piece_is_poisoned)
{
    wick_arena arena = {0};
    char *a = wick_arena_alloc(&arena, 13), *b = wick_arena_alloc(&arena, 16);
    cr_assert_not(__asan_address_is_poisoned(a + 12));
    cr_assert(__asan_address_is_poisoned(a + 13));
    cr_assert(__asan_address_is_poisoned(b - 1));
    cr_assert_not(__asan_address_is_poisoned(b + 15));
    cr_assert(__asan_address_is_poisoned(b + 16));
    wick_arena_free(&arena);
}
#endif
