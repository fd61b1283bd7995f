/* file.h - the system's calls for files, in one place: each goes on after a
 * signal, is a point of base/fault.h, and leaves errno.
 *
 * Files are never written through a symbolic link: in a folder that others
 * can write to, somebody else may have planted it.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/* -1 on errors.  open: closed on exec; with O_CREAT the mode is 0666 less
 * umask, and links are not followed. */
int ts_file_open(const char *path, int flags);
/* All of N_BYTES, in bites of at most 8 MiB; else an error CODE that names PATH
 * and the byte. */
ts_err ts_pread(int fd, void *to, int64_t n_bytes, int64_t at, const char *path,
                ts_err code);
ts_err ts_pwrite(int fd, const void *from, int64_t n_bytes, int64_t at,
                 const char *path, ts_err code);
int ts_file_sync(int fd);
/* A name is on the disk once its folder is. */
int ts_file_sync_folder(const char *path);
int ts_file_rename(const char *from, const char *to);
/* Both exist and are one file. */
bool ts_file_is_same(const char *a, const char *b);
/* It is there, and a folder. */
bool ts_file_is_folder(const char *path);

/* As fopen, with "w", "a" and "r+", which don't follow links, and "wx": the
 * file must be new.  NULL on errors. */
FILE *ts_file_stream(const char *path, const char *mode);
/* Anything but 0: some of what was printed since it was opened was lost. */
int ts_file_flush(FILE *);
int ts_file_close(FILE *);

/* errno in words. */
const char *ts_file_why(void);
