/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A NumPy file is a header, a Python literal padded with blanks to a multiple of 64 bytes, and then
 * the raw array. The number of rows stands in the header, which is written anew after each chunk.
 */
#include "npy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "write_all.h"

#define HEADER 128
#define PREFIX 10 /* magic, version, length of the literal */

static int make_empty_folder(const char *path)
{
    const struct dirent *entry;
    int used = 0;
    DIR *folder;

    if (mkdir(path, 0777) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    folder = opendir(path);
    if (folder == NULL)
        return -errno;
    while (!used && (entry = readdir(folder)) != NULL)
        used = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return used ? -ENOTEMPTY : 0;
}

int npy_open(struct npy *npy, const char *folder)
{
    const int rc = make_empty_folder(folder);

    npy->folder = NULL;
    if (rc != 0)
        return rc;
    npy->folder = strdup(folder);
    return npy->folder == NULL ? -ENOMEM : 0;
}

void npy_close(struct npy *npy)
{
    free(npy->folder);
    npy->folder = NULL;
}

static void make_header(char header[HEADER], const char *descr, uint64_t count)
{
    static const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER - PREFIX, 0};

    memset(header, ' ', HEADER);
    memcpy(header, magic, sizeof(magic));
    const int length = snprintf(header + PREFIX, HEADER - PREFIX,
                                "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,), }",
                                descr, (unsigned long long)count);
    header[PREFIX + length] = ' '; /* instead of the final 0 */
    header[HEADER - 1] = '\n';
}

/* Appends an array to a file and corrects its header. */
static int append(const char *path, const char *descr, const void *data, size_t width,
                  uint64_t rows)
{
    char header[HEADER];
    int rc = 0;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    struct stat status;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) != 0)
        rc = -errno;
    if (rc == 0) {
        const uint64_t before =
            status.st_size <= HEADER ? 0 : ((uint64_t)status.st_size - HEADER) / width;

        make_header(header, descr, before + rows);
        rc = write_all(fd, header, sizeof(header));
    }
    if (rc == 0 && lseek(fd, 0, SEEK_END) < 0)
        rc = -errno;
    if (rc == 0)
        rc = write_all(fd, data, (size_t)rows * width);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

static const char *descr_of(enum schema_kind kind)
{
    switch (kind) {
    case SCHEMA_U16:
        return "<u2";
    case SCHEMA_U32:
        return "<u4";
    case SCHEMA_U64:
    case SCHEMA_HEX64:
    case SCHEMA_LIST64:
        return "<u8";
    case SCHEMA_I32:
        return "<i4";
    case SCHEMA_I64:
        return "<i8";
    case SCHEMA_U8:
    case SCHEMA_ENUM:
    case SCHEMA_TEXT:
    case SCHEMA_BYTES:
        break;
    }
    return "|u1";
}

/* Appends to FOLDER/COLUMN + ending. */
static int append_file(const char *folder, const struct column *column, const char *ending,
                       const char *descr, const struct region *data, size_t width, uint64_t count)
{
    char *path;
    int rc;

    if (asprintf(&path, "%s/%s%s", folder, column->name, ending) < 0)
        return -ENOMEM;
    rc = append(path, descr, data->base, width, count);
    free(path);
    return rc;
}

static int write_column(const char *folder, const struct table *table, const struct column *column)
{
    const char *descr = descr_of(column->kind);
    int rc;

    if (!schema_is_ragged(column->kind))
        return append_file(folder, column, ".npy", descr, &column->values, column->width,
                           table->rows);
    rc = append_file(folder, column, ".lengths.npy", "<u4", &column->lengths, sizeof(uint32_t),
                     table->rows);
    if (rc != 0)
        return rc;
    return append_file(folder, column, ".values.npy", descr, &column->values, column->width,
                       column->elements);
}

int npy_write(void *context, struct table *table)
{
    const struct npy *npy = context;
    char *folder;
    int rc = 0;

    if (asprintf(&folder, "%s/%s", npy->folder, table->event->name) < 0)
        return -ENOMEM;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        rc = -errno;
    for (size_t i = 0; rc == 0 && i < table->column_count; i++)
        rc = write_column(folder, table, &table->columns[i]);
    free(folder);
    return rc;
}
