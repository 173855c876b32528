/* test_text.c -- a string that grows, and remembers when it could not */
#include "walk.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(text, nothing_is_the_empty_string)
{
    wick_text t = {0};
    cr_assert_str_eq(wick_text_str(&t), "");
    wick_text_free(&t);
    wick_text_add(&t, "");
    cr_assert_str_eq(wick_text_str(&t), "");
    cr_assert_eq(t.size, 0);
    cr_assert_not(t.failed);
    wick_text_free(&t);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(text, pieces_are_joined)
{
    wick_text t = {0};
    wick_text_add(&t, "one ");
    wick_text_addn(&t, "two, three", 3);
    wick_text_printf(&t, " %d %s", 3, "four");
    cr_assert_str_eq(wick_text_str(&t), "one two 3 four");
    cr_assert_eq(t.size, strlen("one two 3 four"));
    wick_text_free(&t);
    cr_assert_null(t.data);
    cr_assert_eq(t.size, 0);
}

Test(text, bytes_may_be_nul)
{
    wick_text t = {0};
    wick_text_addn(&t, "a\0b", 3);
    wick_text_add(&t, "c");
    cr_assert_eq(t.size, 4);
    cr_assert_eq(memcmp(t.data, "a\0bc", 5), 0);
    wick_text_free(&t);
}

Test(text, every_length_around_the_capacity_is_whole)
{
    char words[300];
    memset(words, 'w', sizeof words);
    for (int first = 0; first < 130; first++) {
        for (int then = 0; then < 130; then += 3) {
            wick_text added = {0}, printed = {0};
            wick_text_addn(&added, words, (size_t)first);
            wick_text_addn(&added, words, (size_t)then);
            wick_text_printf(&printed, "%.*s", first, words);
            wick_text_printf(&printed, "%.*s", then, words);
            cr_assert_eq(added.size, (size_t)(first + then));
            cr_assert_eq(strlen(wick_text_str(&added)), (size_t)(first + then));
            cr_assert_str_eq(wick_text_str(&printed), wick_text_str(&added));
            cr_assert_eq(printed.size, added.size);
            wick_text_free(&added);
            wick_text_free(&printed);
        }
    }
    cr_assert_eq(wick_memory_live(), 0);
}

Test(text, out_of_memory_is_remembered_and_leaves_what_was_there)
{
    char words[200];
    memset(words, 'w', sizeof words);
    wick_text t = {0};
    wick_text_add(&t, "kept");
    wick_memory_fail_after(1);
    wick_text_printf(&t, "%.*s", 200, words);
    cr_assert(t.failed);
    cr_assert_str_eq(wick_text_str(&t), "kept");
    wick_text_add(&t, "!");
    wick_text_printf(&t, "%d", 1);
    cr_assert(t.failed);
    cr_assert_str_eq(wick_text_str(&t), "kept", "a text with a hole is worse than a short one");
    wick_text_free(&t);
    cr_assert_not(t.failed);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(text, absurd_lengths_fail)
{
    wick_text t = {0};
    wick_text_add(&t, "kept");
    wick_text_addn(&t, "", SIZE_MAX);
    cr_assert(t.failed);
    cr_assert_str_eq(wick_text_str(&t), "kept");
    wick_text_free(&t);
}

static bool grow_by_both_ways(void)
{
    wick_text t = {0};
    for (int i = 0; i < 100; i++) {
        wick_text_add(&t, "0123456789");
        wick_text_printf(&t, "%010d", i);
    }
    bool whole = !t.failed && t.size == 2000 && strcmp(t.data + 1990, "0000000099") == 0;
    bool told = t.failed || t.size == 2000;
    wick_text_free(&t);
    cr_assert(told, "a short text must say so");
    return whole;
}

Test(text, every_allocation_may_fail) { walk_allocation_failures(grow_by_both_ways); }

Test(text, what_is_no_utf8_is_replaced)
{
    static const char *const pairs[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff\xfe", "??"},
        {"a\x80z", "a?z"},
        {"cut \xe2\x82", "cut ??"},
        {"\xc0\xaf", "??"},           /* longer than it need be */
        {"\xed\xa0\x80", "???"},      /* half of a pair */
        {"\xf4\x90\x80\x80", "????"}, /* beyond the last one */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char room[32];
        strcpy(room, pairs[i][0]);
        wick_make_utf8(room);
        cr_assert_str_eq(room, pairs[i][1], "of the %zu-th: '%s'", i, room);
    }
}
