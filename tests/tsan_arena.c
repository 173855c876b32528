/* tsan_arena -- lets Criterion run under ThreadSanitizer
 *
 * Criterion shares memory with its child processes at an address that it draws by rand_r:
 * 0x200000000000 + r * 16 MiB. Nearly all of these belong to ThreadSanitizer's shadow, and the run
 * ends before its first test. This rand_r, found before libc's, draws from the part that the
 * sanitizer leaves to programs: 0x550000000000 to 0x568000000000.
 */
#include <stdlib.h>

__attribute__((visibility("default"))) int rand_r(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return (int)(0x350000u + (*seed >> 8) % 0x18000u);
}
