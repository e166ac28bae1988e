#include "store/sqlite/sqlite_locks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"

enum {
    CHUNK_LEN = 4096, /* descriptors per part of the table */
    CHUNK_MAX = 4096, /* descriptors up to 16,777,215 */
    FORK_SHIFT = 32,  /* the kernel's device numbers have 32 bits */
    NO_FD = -1,
};

typedef struct locked_file {
    struct locked_file *next; /* of those in use */
    dev_t device;
    ino_t inode;
    int lock_fd;
    int retired_fd; /* the read-only lock descriptor that a writable one has replaced */
    int first_fd;   /* I/O descriptors, by fd_entry.next_fd */
    int use_count;  /* I/O descriptors that SQLite has open */
    bool is_lock_writable;
    bool is_inherited; /* opened by the parent process before fork() */
} locked_file;

typedef struct fd_entry {
    _Atomic(locked_file *) file; /* NULL: not an I/O descriptor of a file with locks */
    int next_fd;
    bool is_used;
    bool is_writable;
} fd_entry;

/* What the unix VFS opens right now on this thread: it passes no more than a path to open(2). */
typedef enum opening { OPENING_SIDE_FILE, OPENING_DATABASE, OPENING_OTHER } opening;

/* Guards everything below. Not taken by lock calls: the file of a descriptor that SQLite has open
 * does not change. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static locked_file files[TIDE_SQLITE_LOCKS_FILE_MAX];
static int file_count;           /* entries that have ever been used */
static locked_file *first_file;  /* in use */
static locked_file *first_spare; /* used before */
static int idle_count;           /* files of this process without a used descriptor */
static unsigned fork_count;      /* between the first process and this one */
static fd_entry first_chunk[CHUNK_LEN];
static _Atomic(fd_entry *) chunks[CHUNK_MAX] = {first_chunk}; /* read also without the lock */

static int (*unix_open)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);
static _Thread_local opening now_opening = OPENING_SIDE_FILE;
static _Thread_local bool is_refused; /* at this thread's last lock call that failed */

/* ---- tables; the caller holds table_lock, but for file_of ---- */

static fd_entry *get_entry(int fd)
{
    if (fd < 0 || fd / CHUNK_LEN >= CHUNK_MAX)
        return NULL;
    fd_entry *chunk = atomic_load_explicit(&chunks[fd / CHUNK_LEN], memory_order_acquire);
    return chunk ? &chunk[fd % CHUNK_LEN] : NULL;
}

static locked_file *file_of(int fd)
{
    fd_entry *entry = get_entry(fd);
    return entry ? atomic_load_explicit(&entry->file, memory_order_acquire) : NULL;
}

static locked_file *find_file(const struct stat *info)
{
    for (locked_file *file = first_file; file; file = file->next)
        if (!file->is_inherited && file->inode == info->st_ino && file->device == info->st_dev)
            return file;
    return NULL;
}

static locked_file *add_file(const struct stat *info)
{
    locked_file *file = first_spare;
    if (file)
        first_spare = file->next;
    else if (file_count < TIDE_SQLITE_LOCKS_FILE_MAX)
        file = &files[file_count++];
    if (!file)
        return NULL;
    *file = (locked_file){.next = first_file,
                          .device = info->st_dev,
                          .inode = info->st_ino,
                          .lock_fd = NO_FD,
                          .retired_fd = NO_FD,
                          .first_fd = NO_FD};
    first_file = file;
    idle_count++;
    return file;
}

static void delete_file(locked_file *file)
{
    locked_file **at = &first_file;
    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    file->next = first_spare;
    first_spare = file;
}

static bool add_entry(locked_file *file, int fd, bool is_writable)
{
    if (fd / CHUNK_LEN >= CHUNK_MAX)
        return false;
    fd_entry *entry = get_entry(fd);
    if (!entry) {
        fd_entry *chunk = calloc(CHUNK_LEN, sizeof *chunk);
        if (!chunk)
            return false;
        atomic_store_explicit(&chunks[fd / CHUNK_LEN], chunk, memory_order_release);
        entry = &chunk[fd % CHUNK_LEN];
    }
    entry->is_used = false;
    entry->is_writable = is_writable;
    entry->next_fd = file->first_fd;
    file->first_fd = fd;
    atomic_store_explicit(&entry->file, file, memory_order_release);
    return true;
}

static void use_fd(locked_file *file, int fd)
{
    get_entry(fd)->is_used = true;
    if (file->use_count++ == 0)
        idle_count--;
}

/* ---- close ---- */

static void close_fd(int *fd)
{
    if (*fd != NO_FD)
        (void)close(*fd);
    *fd = NO_FD;
}

static void close_io_fds(locked_file *file)
{
    while (file->first_fd != NO_FD) {
        int fd = file->first_fd;
        fd_entry *entry = get_entry(fd);
        file->first_fd = entry->next_fd;
        atomic_store_explicit(&entry->file, NULL, memory_order_release);
        close_fd(&fd);
    }
}

/* Whether no lock of the application can be dropped by closing the descriptors of an idle file. A
 * read-only lock descriptor cannot take the exclusive lock. It is closed only if the file has no
 * name left: then a lock can be taken only through a descriptor that exists already. */
static bool is_closable(const locked_file *file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat info;
    if (file->lock_fd == NO_FD)
        return false;
    if (file->is_lock_writable)
        return fcntl(file->lock_fd, F_OFD_SETLK, &whole) == 0;
    return fstat(file->lock_fd, &info) == 0 && info.st_nlink == 0 &&
           fcntl(file->lock_fd, F_OFD_GETLK, &whole) == 0 && whole.l_type == F_UNLCK;
}

/* The lock descriptor is the last: the kernel drops POSIX locks at close(2) before it releases
 * ours. */
static void try_close(locked_file *file)
{
    if (!is_closable(file))
        return;
    close_io_fds(file);
    close_fd(&file->retired_fd);
    close_fd(&file->lock_fd);
    delete_file(file);
    idle_count--;
}

static void close_idle_files(void)
{
    locked_file *next = NULL;
    for (locked_file *file = first_file; file && idle_count > 0; file = next) {
        next = file->next;
        if (file->use_count == 0 && !file->is_inherited)
            try_close(file);
    }
}

static int call_close(int fd)
{
    if (!file_of(fd))
        return close(fd);
    TIDE_HOLD(&table_lock);
    locked_file *file = file_of(fd);
    fd_entry *entry = get_entry(fd);
    assert(entry->is_used && file->use_count > 0);
    entry->is_used = false;
    if (--file->use_count == 0 && !file->is_inherited) {
        idle_count++;
        close_idle_files();
    }
    return 0;
}

/* ---- open ---- */

/* The unix VFS would close a descriptor below 3 again: a print to it would write the database. */
static void occupy_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDONLY);
}

/* An open descriptor becomes an idle one of its file, which is *out. NULL: it is not the descriptor
 * of a plain file, or there is no room; then it stays open and unknown, as closing it could drop
 * locks. */
static locked_file *adopt_fd(int fd, bool is_writable)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return NULL;
    locked_file *file = find_file(&info);
    if (!file)
        file = add_file(&info);
    if (!file || !add_entry(file, fd, is_writable)) {
        errno = file ? ENOMEM : EMFILE;
        return NULL;
    }
    return file;
}

/* The lock descriptor is writable if the file permits it, even for a connection that only reads: a
 * read-only one cannot carry the write lock of a connection that is opened later. */
static bool open_lock_fd(locked_file *file, const char *path, bool is_writing)
{
    if (file->lock_fd != NO_FD && (file->is_lock_writable || !is_writing))
        return true;
    if (file->lock_fd != NO_FD && file->use_count > 0) {
        errno = EBUSY; /* the read-only one holds locks */
        return false;
    }
    bool is_writable = true;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && !is_writing) {
        is_writable = false;
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    }
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0)
        return false;
    if (info.st_ino != file->inode || info.st_dev != file->device) {
        if (adopt_fd(fd, is_writable)) /* path names another file now */
            close_idle_files();
        errno = ESTALE;
        return false;
    }
    file->retired_fd = file->lock_fd;
    file->lock_fd = fd;
    file->is_lock_writable = is_writable;
    return true;
}

static int find_idle_fd(const locked_file *file, bool is_writing)
{
    for (int fd = file->first_fd; fd != NO_FD; fd = get_entry(fd)->next_fd)
        if (!get_entry(fd)->is_used && (get_entry(fd)->is_writable || !is_writing))
            return fd;
    return NO_FD;
}

/* Reuses an idle descriptor instead of calling open(2). As open(2), it checks the permission. */
static int reopen(locked_file *file, int fd, const char *path, bool is_writing)
{
    if (faccessat(AT_FDCWD, path, is_writing ? R_OK | W_OK : R_OK, AT_EACCESS) != 0 ||
        !open_lock_fd(file, path, is_writing))
        return -1;
    use_fd(file, fd);
    return fd;
}

static int open_anew(const char *path, int flags, int mode, bool is_writing)
{
    struct stat info;
    occupy_standard_fds();
    const int fd = open(path, flags | O_CLOEXEC, mode);
    if (fd <= STDERR_FILENO || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return fd; /* failed, or without locks */
    locked_file *file = adopt_fd(fd, is_writing);
    if (!file || !open_lock_fd(file, path, is_writing))
        return -1;
    use_fd(file, fd);
    return fd;
}

static int open_with_locks(const char *path, int flags, int mode)
{
    const bool is_writing = (flags & O_ACCMODE) != O_RDONLY;
    const bool is_exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    struct stat info;
    (void)pthread_mutex_lock(&table_lock);
    locked_file *file = !is_exclusive && lstat(path, &info) == 0 ? find_file(&info) : NULL;
    const int idle_fd = file ? find_idle_fd(file, is_writing) : NO_FD;
    const int fd = idle_fd != NO_FD ? reopen(file, idle_fd, path, is_writing)
                                    : open_anew(path, flags, mode, is_writing);
    const int number = errno;
    close_idle_files();
    (void)pthread_mutex_unlock(&table_lock);
    errno = number;
    return fd;
}

/* Databases have locks, and their -shm files, which xShmMap opens outside of xOpen. */
static bool has_locks(const char *path)
{
    const size_t len = strlen(path);
    if (now_opening == OPENING_SIDE_FILE)
        return len > 4 && strcmp(path + len - 4, "-shm") == 0;
    return now_opening == OPENING_DATABASE;
}

static int call_open(const char *path, int flags, int mode)
{
    return has_locks(path) ? open_with_locks(path, flags, mode) : open(path, flags, mode);
}

static int open_vfs_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                         int *out_flags)
{
    now_opening = flags & SQLITE_OPEN_MAIN_DB ? OPENING_DATABASE : OPENING_OTHER;
    const int code = unix_open(vfs, name, file, flags, out_flags);
    now_opening = OPENING_SIDE_FILE;
    return code;
}

/* ---- lock, stat ---- */

bool tide_sqlite_locks_unsupported(int number)
{
    return number == EINVAL || number == ENOLCK || number == EOPNOTSUPP || number == ENOSYS;
}

static int call_lock(int fd, int command, struct flock *lock)
{
    const locked_file *file = file_of(fd);
    if (!file || file->is_inherited) {
        errno = EIO;
        /* A connection of the parent: the lock is the parent's. */
        return file && command == F_OFD_SETLK && lock->l_type == F_UNLCK ? 0 : -1;
    }
    lock->l_pid = 0; /* the kernel demands it */
    if (fcntl(file->lock_fd, command, lock) == 0)
        return 0;
    is_refused = tide_sqlite_locks_unsupported(errno);
    if (is_refused)
        errno = EOPNOTSUPP; /* SQLite takes ENOLCK for a lock that is held, and would retry */
    return -1;
}

bool tide_sqlite_locks_is_locked(const char *path, long byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    const int fd = open_with_locks(path, O_RDWR, 0);
    if (fd < 0)
        return errno != ENOENT;
    const bool is_locked = fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
    (void)call_close(fd);
    return is_locked;
}

static int call_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    int code = -1;
    if (command == F_SETLK || command == F_GETLK)
        code = call_lock(fd, command == F_SETLK ? F_OFD_SETLK : F_OFD_GETLK,
                         va_arg(list, struct flock *));
    else
        code = fcntl(fd, command, va_arg(list, int));
    va_end(list);
    return code;
}

/* The unix VFS accounts for locks per device and inode. After fork() that account is a copy of the
 * parent's. Another device number gives a file that the child opens an account of its own. */
static int shift_device(int code, struct stat *info)
{
    if (code == 0 && S_ISREG(info->st_mode))
        info->st_dev += (dev_t)fork_count << FORK_SHIFT;
    return code;
}

static int call_fstat(int fd, struct stat *out)
{
    return shift_device(fstat(fd, out), out);
}

static int call_stat(const char *path, struct stat *out)
{
    return shift_device(stat(path, out), out);
}

/* ---- fork ---- */

static void before_fork(void)
{
    (void)pthread_mutex_lock(&table_lock);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&table_lock);
}

/* The child has no POSIX lock yet, so that closing drops none. A copy of a lock descriptor would
 * keep the parent's locks beyond its death, and a lock taken through it would be the parent's. */
static void after_fork_in_child(void)
{
    locked_file *next = NULL;
    for (locked_file *file = first_file; file; file = next) {
        next = file->next;
        close_fd(&file->lock_fd);
        close_fd(&file->retired_fd);
        file->is_inherited = true;
        if (file->use_count == 0) {
            close_io_fds(file);
            delete_file(file);
        }
    }
    idle_count = 0;
    fork_count++;
    (void)pthread_mutex_unlock(&table_lock);
}

/* ---- the bundled SQLite ---- */

bool tide_sqlite_locks_refused(int code)
{
    return is_refused && (code == SQLITE_IOERR_LOCK || code == SQLITE_IOERR_RDLOCK ||
                          code == SQLITE_IOERR_CHECKRESERVEDLOCK);
}

tide_status tide_sqlite_locks_fail(tide_error *err, const char *what)
{
    return tide_fail_advised(err, TIDE_E_UNSUPPORTED,
                             "cannot lock %s: its file system has no open file description locks "
                             "(F_OFD_SETLK); move the database to a local file system",
                             what);
}

int tide_sqlite_locks_init(const char *unused)
{
    (void)unused;
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    if (!vfs || vfs->iVersion < 3)
        return SQLITE_ERROR;
    if (vfs->xOpen == open_vfs_file) /* initialised again after sqlite3_shutdown() */
        return SQLITE_OK;
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
        return SQLITE_NOMEM;
    const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {
        {"open", (sqlite3_syscall_ptr)call_open},   {"close", (sqlite3_syscall_ptr)call_close},
        {"fcntl", (sqlite3_syscall_ptr)call_fcntl}, {"fstat", (sqlite3_syscall_ptr)call_fstat},
        {"stat", (sqlite3_syscall_ptr)call_stat},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const int code = vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call);
        if (code != SQLITE_OK)
            return code;
    }
    unix_open = vfs->xOpen;
    vfs->xOpen = open_vfs_file;
    return SQLITE_OK;
}
