/* stock_writer - a process that inserts as a stock client does.
 *
 *     lake-stock-writer URL SCHEMA TABLE_ID NAME COUNT
 *
 * Exit code 0: all were committed. 1: one was not; words on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lake/expose/stock.h"

enum { LIFE_MAX_S = 3600, TRIES = 100, WAIT_US = 5000 };

int main(int argc, char **argv)
{
    stock s;
    if (argc != 6)
        return 2;
    (void)alarm(LIFE_MAX_S); /* an orphan ends, too */
    srandom((unsigned)getpid());
    const int count = (int)strtol(argv[5], NULL, 10);
    bool is_done = stock_open(&s, argv[1], argv[2]);
    for (int i = 0; is_done && i < count; i++) {
        char file[128];
        (void)snprintf(file, sizeof file, "ducklake-%s-%d.parquet", argv[4], i);
        is_done = stock_insert(&s, strtoll(argv[3], NULL, 10), file, 1, i, i, TRIES, WAIT_US);
    }
    if (!is_done)
        (void)fprintf(stderr, "lake-stock-writer: %s\n", s.error);
    stock_close(&s);
    return is_done ? 0 : 1;
}
