/* snapshot.c -- what the process holds, as the C library and the kernel tell it
 *
 * Taken before and after calls that should leave nothing behind. Mappings of the heap itself come
 * and go with what it holds; the heap is therefore counted by what is in use, and mappings apart
 * from it.
 */
#define _GNU_SOURCE 1 /* mallinfo2 */
#include "trial.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t count_entries(const char *folder)
{
    int64_t n = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Bytes of the address space. */
static int64_t count_mapped(void)
{
    char line[128] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    const char *read = fgets(line, sizeof line, file);
    fclose(file);
    return read ? (int64_t)strtoll(line, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

void wick_snapshot_take(wick_snapshot *out)
{
    int64_t files = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    int64_t mapped = count_mapped();
    struct mallinfo2 heap = mallinfo2();
    *out = (wick_snapshot){.heap_bytes = (int64_t)(heap.uordblks + heap.hblkhd),
                           .mapped_bytes = mapped - (int64_t)(heap.arena + heap.hblkhd),
                           .files = files,
                           .threads = threads};
}
