/* test_hash.c -- it is XXH3, so that keys written today are found by the next version */
#include "core.h"

#include <criterion/criterion.h>

Test(hash, is_xxh3_with_128_bits)
{
    char hex[33];
    wick_hash_hex(wick_hash_bytes(NULL, 0), hex);
    cr_assert_str_eq(hex, "99aa06d3014798d86001c324468d497f");
    wick_hash_hex(wick_hash_bytes("abc", 3), hex);
    cr_assert_str_eq(hex, "06b05ab6733a618578af5f94892f3950");
}

Test(hash, hex_keeps_leading_zeros)
{
    char hex[33];
    wick_hash_hex((wick_hash){.high = 0xab, .low = 1}, hex);
    cr_assert_str_eq(hex, "00000000000000ab0000000000000001");
}

Test(hash, every_byte_counts_at_every_length)
{
    unsigned char bytes[600] = {0};
    for (size_t n = 1; n <= sizeof bytes; n += 7) {
        wick_hash before = wick_hash_bytes(bytes, n);
        for (size_t i = 0; i < n; i += 13) {
            bytes[i] = 1;
            wick_hash after = wick_hash_bytes(bytes, n);
            cr_assert(after.high != before.high || after.low != before.low, "byte %zu of %zu", i,
                      n);
            bytes[i] = 0;
        }
        wick_hash again = wick_hash_bytes(bytes, n);
        cr_assert(again.high == before.high && again.low == before.low);
    }
}
