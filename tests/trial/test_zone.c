/* test_zone.c -- guards cannot be touched, what is written beside data is told */
#include "trial.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

static void open_zone(wick_zone *zone, const wick_zone_wish *wish)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_zone_open(&ctx, wish, zone), WICK_OK, "%s", wick_ctx_message(&ctx));
}

static void make_zone(wick_zone *zone, size_t bytes, bool at_end, size_t shift)
{
    open_zone(zone, &(wick_zone_wish){.label = "y",
                                      .bytes = bytes,
                                      .alignment = 4,
                                      .at_end = at_end,
                                      .shift = shift,
                                      .writable = true,
                                      .folded = true});
}

Test(zone, is_zeroed_writable_and_given_back)
{
    wick_zone zone;
    make_zone(&zone, 1000, true, 0);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(zone.data[i], 0);
    wick_zone_fill(&zone, 0x7f);
    cr_assert(zone.data[0] == 0x7f && zone.data[999] == 0x7f);
    wick_zone_close(&zone);
    cr_assert_null(zone.reserved);
    wick_zone_close(&zone);
}

Test(zone, ends_where_the_guard_begins, .signal = SIGSEGV)
{
    wick_zone zone;
    make_zone(&zone, 1000, true, 0);
    ((volatile char *)zone.data)[1000] = 1;
}

Test(zone, begins_where_the_guard_ends, .signal = SIGSEGV)
{
    wick_zone zone;
    make_zone(&zone, 1000, false, 0);
    ((volatile char *)zone.data)[-1] = 1;
}

Test(zone, an_empty_one_is_all_guard, .signal = SIGSEGV)
{
    wick_zone zone;
    make_zone(&zone, 0, true, 0);
    cr_assert_not_null(zone.data);
    ((volatile char *)zone.data)[0] = 1;
}

Test(zone, a_sealed_one_is_only_read, .signal = SIGSEGV)
{
    wick_zone zone;
    make_zone(&zone, 8, true, 0);
    wick_zone_seal(&zone);
    cr_assert_eq(((volatile char *)zone.data)[0], 0);
    ((volatile char *)zone.data)[0] = 1;
}

Test(zone, what_is_written_into_the_slack_is_told)
{
    wick_zone end, start;
    make_zone(&end, 10, true, 0);
    make_zone(&start, 10, false, 8);
    wick_text said = {0};
    wick_zone_inspect(&end, &said);
    wick_zone_inspect(&start, &said);
    cr_assert_str_eq(wick_text_str(&said), "");
    end.data[-3] = 1;
    start.data[-1] = 1;
    start.data[10] = 1;
    wick_zone_inspect(&end, &said);
    wick_zone_inspect(&start, &said);
    cr_assert_str_eq(wick_text_str(&said), "it wrote 3 bytes before the start of y\n"
                                           "it wrote 1 byte before the start of y\n"
                                           "it wrote right past the end of y\n");
    wick_text_free(&said);
    wick_zone_close(&end);
    wick_zone_close(&start);
}

Test(zone, a_number_added_to_the_slack_is_told)
{
    double next;
    wick_zone zone;
    wick_text said = {0};
    make_zone(&zone, 100, false, 0);
    memcpy(&next, zone.data + 104, sizeof next);
    next += 1;
    memcpy(zone.data + 104, &next, sizeof next);
    wick_zone_inspect(&zone, &said);
    cr_assert(strstr(wick_text_str(&said), "past the end of y"), "%s", wick_text_str(&said));
    wick_text_free(&said);
    wick_zone_close(&zone);
}

Test(zone, room_may_be_used_and_is_told_of)
{
    wick_zone zone;
    wick_text said = {0};
    for (int at_end = 0; at_end < 2; at_end++) {
        wick_zone_wish wish = {.label = "y",
                               .bytes = 16,
                               .alignment = 16,
                               .at_end = at_end != 0,
                               .room = 5000,
                               .writable = true};
        open_zone(&zone, &wish);
        zone.data[-5000] = 1;
        zone.data[16 + 4999] = 1;
        wick_zone_inspect(&zone, &said);
        wick_zone_close(&zone);
    }
    cr_assert_str_eq(wick_text_str(&said), "it wrote 5000 bytes before the start of y\n"
                                           "it wrote 4999 bytes past the end of y\n"
                                           "it wrote 5000 bytes before the start of y\n"
                                           "it wrote 4999 bytes past the end of y\n");
    wick_text_free(&said);
}

Test(zone, at_the_end_data_is_aligned)
{
    wick_zone zone;
    make_zone(&zone, 10, true, 0);
    cr_assert_eq((uintptr_t)zone.data % 4, 0);
    cr_assert_leq((size_t)(zone.open + zone.open_bytes - (zone.data + zone.bytes)), 3);
    wick_zone_close(&zone);
}

Test(zone, a_huge_one_costs_a_chunk_and_keeps_its_tail)
{
    const size_t bytes = ((size_t)5 << 30) + 12345;
    wick_zone zone;
    make_zone(&zone, bytes, true, 0);
    size_t tail = wick_zone_tail(bytes);
    cr_assert_lt(tail, (size_t)100 << 20);
    cr_assert_eq(wick_zone_tail(1000), 1000);
    wick_zone_fill(&zone, 0x7f);
    memset(zone.data, 1, 1000);
    memset(zone.data + bytes / 2, 2, 1000);
    zone.data[bytes - 1] = 3;
    zone.data[bytes - tail] = 4;
    cr_assert(zone.data[bytes - 1] == 3 && zone.data[bytes - tail] == 4 &&
              zone.data[bytes - 2] == 0x7f && zone.data[bytes - tail + 1] == 0x7f);
    wick_zone_close(&zone);
}

Test(zone, a_huge_one_that_is_read_is_zeros_but_for_its_tail)
{
    const size_t bytes = (size_t)5 << 30;
    wick_zone zone;
    wick_ctx ctx;
    wick_zone_wish wish = {.label = "x", .bytes = bytes, .alignment = 1, .writable = true};
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_zone_open(&ctx, &wish, &zone), WICK_OK);
    cr_assert(zone.data[0] == 0 && zone.data[bytes / 2] == 0);
    zone.data[bytes - 1] = 1;
    zone.data[bytes - wick_zone_tail(bytes)] = 1;
    char room[64]; /* where an index of 32 bits that has wrapped points to */
    cr_assert_str_eq(wick_zone_describe(zone.data - bytes, room, sizeof room),
                     "5368709120 bytes before the start of x");
    wick_zone_close(&zone);
}

Test(zone, addresses_are_described)
{
    char room[64], small[8];
    wick_zone zone;
    make_zone(&zone, 100, false, 0);
    cr_assert_str_eq(wick_zone_describe(zone.data + 7, room, sizeof room), "byte 7 of y");
    cr_assert_str_eq(wick_zone_describe(zone.data + 100, room, sizeof room),
                     "right past the end of y");
    cr_assert_str_eq(wick_zone_describe(zone.data - 12, room, sizeof room),
                     "12 bytes before the start of y");
    cr_assert_str_eq(wick_zone_describe(zone.data + 7, small, sizeof small), "byte 7 ");
    cr_assert_null(wick_zone_describe(room, room, sizeof room));
    wick_zone_close(&zone);
}

Test(zone, what_cannot_be_had_is_told)
{
    wick_zone zone;
    wick_ctx ctx;
    wick_zone_wish wish = {.label = "y", .bytes = SIZE_MAX / 4, .alignment = 1};
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_zone_open(&ctx, &wish, &zone), WICK_ENOMEM);
    cr_assert_str_eq(wick_ctx_message(&ctx), "no memory for y (4611686018427387903 bytes)");
    wick_ctx_deinit(&ctx);
}
