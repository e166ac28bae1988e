/* replica.c - an application with a SQLite file of its own, which shares its table with others.
 *
 *     replica DB PEER WHO
 *
 *     cc replica.c $(pkg-config --cflags --libs sqlite3 jansson) -o replica
 *     tidemark replica serve other.db --listen 127.0.0.1:4321 &       # any node; ready grpc=127.0.0.1:4321
 *     ./replica notes.db 127.0.0.1:4321 ann
 *
 * The application writes plain SQL and knows nothing of replication: triggers log its changes in its own transactions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>

enum { LINE_SIZE = 65536, TEXT_SIZE = 256, UNAVAILABLE = 6, TRIES = 5, WAIT_MS = 10000 };

static void die(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    exit(EXIT_FAILURE);
}

/* tidemark with these arguments, NULL behind the last; its exit code (docs/reference/errors.md), and what it printed last. */
static int tidemark(char last[LINE_SIZE], const char *const *args)
{
    int pipe_fds[2];
    int status = 0;
    const char *program = getenv("TIDEMARK");
    const char *argv[16] = {program ? program : "tidemark"};
    for (size_t i = 0; args[i] && i < 14; i++)
        argv[i + 1] = args[i];
    if (pipe(pipe_fds) != 0)
        die("no pipe");
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(pipe_fds[1], STDOUT_FILENO);
        (void)close(pipe_fds[0]);
        (void)close(pipe_fds[1]);
        (void)execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    (void)close(pipe_fds[1]);
    FILE *out = fdopen(pipe_fds[0], "r");
    last[0] = '\0';
    while (out && fgets(last, LINE_SIZE, out)) {
    }
    if (!out || fclose(out) != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        die("tidemark could not be run");
    return WEXITSTATUS(status);
}

static void execute(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die(sqlite3_errmsg(db));
}

static void write_notes(sqlite3 *db, const char *path, const char *who)
{
    static char line[LINE_SIZE];
    char text[TEXT_SIZE];
    sqlite3_stmt *insert = NULL;
    /* Keys that no two nodes make: an INTEGER PRIMARY KEY counted up on each of them would name different notes alike. */
    execute(
        db,
        "CREATE TABLE IF NOT EXISTS notes (id TEXT NOT NULL PRIMARY KEY, author TEXT, text TEXT)");
    /* Again: nothing, or triggers are put right. */
    if (tidemark(line, (const char *const[]){"replica", "track", path, "notes", NULL}) != 0)
        die("notes cannot be tracked");
    execute(db, "BEGIN IMMEDIATE"); /* one transaction here is one transaction at the peers */
    if (sqlite3_prepare_v2(db,
                           "INSERT INTO notes VALUES (?1 || '-' || ?2, ?1, ?3)"
                           " ON CONFLICT (id) DO UPDATE SET text = excluded.text",
                           -1, &insert, NULL) != SQLITE_OK)
        die(sqlite3_errmsg(db));
    for (int number = 1; number <= 3; number++) {
        (void)snprintf(text, sizeof text, "note %d of %s", number, who);
        (void)sqlite3_bind_text(insert, 1, who, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int(insert, 2, number);
        (void)sqlite3_bind_text(insert, 3, text, -1, SQLITE_TRANSIENT);
        if (sqlite3_step(insert) != SQLITE_DONE)
            die(sqlite3_errmsg(db));
        (void)sqlite3_reset(insert);
    }
    (void)sqlite3_finalize(insert);
    execute(db, "COMMIT");
}

/* 0 means proven: everything that either side had when it began is at both. Otherwise nothing is lost: it goes on next time. */
static void sync_with(const char *path, const char *peer)
{
    static char line[LINE_SIZE];
    int code = UNAVAILABLE;
    for (int i = 0; i < TRIES && code == UNAVAILABLE; i++) {
        const struct timespec pause = {.tv_sec = i, .tv_nsec = 0};
        (void)nanosleep(&pause, NULL);
        code = tidemark(line, (const char *const[]){"replica", "sync", path, peer, "--json", NULL});
    }
    if (code != 0)
        die("not in sync yet; changes stay in the log until they are");
    json_t *told = json_loads(line, 0, NULL);
    printf("pulled %lld pushed %lld\n",
           (long long)json_integer_value(json_object_get(told, "pulled")),
           (long long)json_integer_value(json_object_get(told, "pushed")));
    json_decref(told);
}

static int say_author(void *arg, int count, char **values, char **names)
{
    (void)arg;
    (void)count;
    (void)names;
    printf("%s: %s notes\n", values[0], values[1]);
    return 0;
}

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    if (argc != 4)
        die("replica DB PEER WHO");
    if (sqlite3_open(argv[1], &db) != SQLITE_OK)
        die(sqlite3_errmsg(db));
    (void)sqlite3_busy_timeout(db, WAIT_MS); /* a sync writes now and then, too */
    write_notes(db, argv[1], argv[3]);
    sync_with(argv[1], argv[2]);
    if (sqlite3_exec(db, "SELECT author, count(*) FROM notes GROUP BY author ORDER BY author",
                     say_author, NULL, NULL) != SQLITE_OK)
        die(sqlite3_errmsg(db));
    (void)sqlite3_close(db);
    return EXIT_SUCCESS;
}
