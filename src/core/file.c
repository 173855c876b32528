/* file.c -- whole files, temporary folders, absolute paths
 *
 * Messages name the path and the system's reason. Folders are emptied through descriptors and never
 * through a symbolic link, so that removing a temporary folder cannot reach out of it. Files are
 * published by rename; they are not synced to disk, as everything written here can be built again.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "core.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static wick_status fail_with_errno(wick_ctx *ctx, const char *verb, const char *path)
{
    return wick_fail(ctx, WICK_EIO, "cannot %s \"%s\": %s", verb, path, strerror(errno));
}

/* ---- reading ---- */

/* Until the end and not just st_size bytes: files of /proc say 0. */
static wick_status read_all(wick_ctx *ctx, int fd, const char *path, char **data, size_t *size)
{
    struct stat about;
    if (fstat(fd, &about)) return fail_with_errno(ctx, "read", path);
    /* One byte more than it has, so that the end is seen without growing, and one for the NUL. */
    size_t capacity = (size_t)about.st_size + 2;
    for (;;) {
        if (!*data || capacity - *size < 2) {
            if (*data) capacity = capacity < 4096 ? 4096 : capacity * 2;
            char *grown = wick_realloc(*data, capacity);
            if (!grown) return wick_fail(ctx, WICK_ENOMEM, "out of memory reading \"%s\"", path);
            *data = grown;
        }
        ssize_t n = read(fd, *data + *size, capacity - *size - 1);
        if (n == 0) break;
        if (n > 0) *size += (size_t)n;
        if (n < 0 && errno != EINTR) return fail_with_errno(ctx, "read", path);
    }
    (*data)[*size] = '\0';
    return WICK_OK;
}

wick_status wick_file_read(wick_ctx *ctx, const char *path, char **out, size_t *out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_with_errno(ctx, "read", path);
    char *data = NULL;
    size_t size = 0;
    wick_status status = read_all(ctx, fd, path, &data, &size);
    close(fd);
    if (status) {
        wick_free(data);
        return status;
    }
    *out = data;
    if (out_bytes) *out_bytes = size;
    return WICK_OK;
}

/* ---- writing ---- */

/* Creates a file of a fresh name in the folder of `path`. Not mkstemp, whose files others may never
 * read: the umask decides here, as for any file. */
static int create_beside(const char *path, wick_text *name)
{
    static atomic_uint serial;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    for (;;) {
        wick_text_free(name);
        wick_text_printf(name, "%.*s.wick-%ld-%u", folder, path, (long)getpid(),
                         atomic_fetch_add(&serial, 1));
        if (name->failed) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        /* A process of our number that was killed may have left one behind. */
        if (fd >= 0 || errno != EEXIST) return fd;
    }
}

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return true;
}

wick_status wick_file_write(wick_ctx *ctx, const char *path, const void *data, size_t bytes)
{
    wick_status status = WICK_OK;
    wick_text name = {0};
    int fd = create_beside(path, &name);
    if (fd < 0) {
        status = name.failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory writing \"%s\"", path)
                             : fail_with_errno(ctx, "write", path);
        goto done;
    }
    bool written = write_all(fd, data, bytes);
    int reason = errno;
    /* A full disk over the network is reported by close. */
    if (close(fd) && written) {
        written = false;
        reason = errno;
    }
    if (written && rename(name.data, path)) {
        written = false;
        reason = errno;
    }
    if (!written) {
        unlink(name.data);
        errno = reason;
        status = fail_with_errno(ctx, "write", path);
    }
done:
    wick_text_free(&name);
    return status;
}

bool wick_file_exists(const char *path) { return access(path, F_OK) == 0; }

/* ---- folders and paths ---- */

wick_status wick_dir_temporary(wick_ctx *ctx, const char *stem, char **out)
{
    const char *parent = getenv("TMPDIR");
    wick_text path = {0};
    wick_text_printf(&path, "%s/", parent && *parent ? parent : "/tmp");
    for (const char *c = stem; *c; c++) {
        wick_text_addn(&path, *c == '/' ? "_" : c, 1);
    }
    wick_text_add(&path, "-XXXXXX");
    wick_status status = WICK_OK;
    if (path.failed) {
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory making a temporary folder");
    } else if (!mkdtemp(path.data)) {
        status = fail_with_errno(ctx, "make the temporary folder", path.data);
    }
    if (status) {
        wick_text_free(&path);
        return status;
    }
    *out = path.data;
    return WICK_OK;
}

/* Removes folder `name` of the open folder `parent`, with the files in it and `levels` of folders
 * below. */
static void remove_at(int parent, const char *name, int levels)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (unlinkat(fd, entry->d_name, 0) && levels > 0) {
            remove_at(fd, entry->d_name, levels - 1);
        }
    }
    closedir(folder);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void wick_dir_remove(const char *path)
{
    if (path) remove_at(AT_FDCWD, path, 1);
}

wick_status wick_path_absolute(wick_ctx *ctx, const char *path, char **out)
{
    char resolved[PATH_MAX];
    if (!realpath(path, resolved)) return fail_with_errno(ctx, "find", path);
    char *copy = wick_strdup(resolved);
    if (!copy) return wick_fail(ctx, WICK_ENOMEM, "out of memory resolving \"%s\"", path);
    *out = copy;
    return WICK_OK;
}
