#include "net/server/port_holder.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static void close_file(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

/* A line of the kernel's table of sockets, "0: 0100007F:1F90 00000000:0000 0A ... inode": the local
 * address in the second column, the state (0A: listening) in the fourth, the inode in the tenth. */
static uint64_t read_listener(char *line, uint16_t port)
{
    enum { LOCAL = 1, STATE = 3, INODE = 9, COLUMNS };
    const char *columns[COLUMNS] = {0};
    char *rest = line;
    for (int i = 0; i < COLUMNS; i++) {
        columns[i] = strtok_r(NULL, " \n", &rest);
        if (!columns[i])
            return 0;
    }
    const char *colon = strchr(columns[LOCAL], ':');
    if (!colon || strtoul(colon + 1, NULL, 16) != port || strcmp(columns[STATE], "0A") != 0)
        return 0;
    return strtoull(columns[INODE], NULL, 10);
}

/* The inode of the socket that listens on a port; 0: none. */
static uint64_t find_listener(const char *table, uint16_t port)
{
    TIDE_CLEANUP(close_file) FILE *file = fopen(table, "re");
    char line[512];
    uint64_t inode = 0;
    while (inode == 0 && file && fgets(line, sizeof line, file))
        inode = read_listener(line, port);
    return inode;
}

/* Does a process have a descriptor of this name ("socket:[123]")? */
static bool has_descriptor(const char *pid, const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    TIDE_CLEANUP(close_dir) DIR *dir = opendir(path);
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        char target[64];
        (void)snprintf(path, sizeof path, "/proc/%.20s/fd/%.20s", pid, entry->d_name);
        const ssize_t len = readlink(path, target, sizeof target - 1);
        if (len > 0) {
            target[len] = '\0';
            if (strcmp(target, name) == 0)
                return true;
        }
    }
    return false;
}

static void describe(char out[TIDE_PORT_HOLDER_MAX], const char *pid)
{
    char path[64];
    char name[32] = "";
    (void)snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    TIDE_CLEANUP(close_file) FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof name, file))
        name[strcspn(name, "\n")] = '\0';
    (void)snprintf(out, TIDE_PORT_HOLDER_MAX, "process %.20s (%.31s)", pid, name);
}

void tide_port_holder(char out[TIDE_PORT_HOLDER_MAX], uint16_t port)
{
    out[0] = '\0';
    uint64_t inode = find_listener("/proc/net/tcp", port);
    if (inode == 0)
        inode = find_listener("/proc/net/tcp6", port);
    if (inode == 0)
        return;

    char name[64];
    (void)snprintf(name, sizeof name, "socket:[%" PRIu64 "]", inode);
    (void)snprintf(out, TIDE_PORT_HOLDER_MAX, "a process of another user");
    TIDE_CLEANUP(close_dir) DIR *dir = opendir("/proc");
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name) &&
            has_descriptor(entry->d_name, name)) {
            describe(out, entry->d_name);
            return;
        }
    }
}
