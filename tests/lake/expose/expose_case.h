/* expose_case.h - a case of the tests with a stock client: an exposed catalog and the client. */
#pragma once

#include "lake/expose.h"
#include "lake/expose/stock.h"
#include "lake/lake_fixture.h"

typedef struct expose_case {
    lake_case l;
    stock s;
} expose_case;

static inline void expose(lake_case *l, const char *catalog)
{
    tide_lake_exposed exposed;
    assert_ok_err(tide_lake_expose(l->lake, catalog, NULL, &exposed, &l->err), &l->err);
}

static inline void attach(expose_case *c, const char *schema)
{
    if (!stock_open(&c->s, c->l.t->url, schema))
        fail_msg("%s", c->s.error);
}

/* A catalog "books" with main.t of two files, a neighbour that has taken the number that follows, and a client attached to books. */
static inline expose_case begin(void **state)
{
    expose_case c = {.l = lake_case_open(state)};
    lake_catalog(&c.l, "books");
    lake_catalog(&c.l, "other");
    lake_table(&c.l, "books", "main", "t");
    lake_insert(&c.l, "books", "main", "t", 3);
    lake_insert(&c.l, "books", "main", "t", 4);
    lake_table(&c.l, "other", "main", "n");
    expose(&c.l, "books");
    attach(&c, "lake_books");
    return c;
}

static inline void end(expose_case *c)
{
    stock_close(&c->s);
    lake_case_done(&c->l);
}

static inline void assert_done(const stock *s, bool is_done)
{
    if (!is_done)
        fail_msg("%s", s->error);
}

/* Refused for good: the client does not try again. */
static inline void assert_refused(stock *s, bool is_done, const char *words)
{
    assert_false(is_done);
    if (!strstr(s->error, words))
        fail_msg("'%s' is not in: %s", words, s->error);
    assert_false(stock_may_try_again(s));
    stock_rollback(s);
}

static inline int64_t table_id(expose_case *c, const char *table)
{
    const int64_t id = stock_table(&c->s, "main", table, INT64_MAX - 1);
    assert_true(id > 0);
    return id;
}
