/* Histories as C tests write them are read by the checkers, whatever is in their texts. */
#include "support/history.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "support/tempdir.h"

typedef struct history_case {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    int fd;
    tide_error err;
} history_case;

static void begin(history_case *c)
{
    assert_ok_err(tempdir_make(&c->dir, &c->err), &c->err);
    tempdir_join(&c->dir, "history.jsonl", c->path);
    c->fd = history_open(c->path);
}

static void end(history_case *c)
{
    (void)close(c->fd);
    assert_ok_err(tempdir_remove(&c->dir, &c->err), &c->err);
}

static void begin_take(history_line *line, const char *value)
{
    history_begin(line, "writer \"1\"", "take");
    history_text(line, "sequence", "s\\\t\n\x01");
    history_text(line, "value", value);
}

static void write_row(const history_case *c, int64_t number, const char *value)
{
    history_line line;
    history_begin(&line, "end", "row");
    history_text(&line, "sequence", "s\\\t\n\x01");
    history_number(&line, "number", number);
    history_text(&line, "value", value);
    history_end(&line, c->fd, HISTORY_OK);
}

static tide_status judge(history_case *c, char verdict[HISTORY_VERDICT_MAX])
{
    const char *const paths[] = {c->path, NULL};
    return history_judge("sequences.py", paths, verdict, &c->err);
}

/* One call is acknowledged, one refused, one announced and never answered. */
static void what_was_written_is_read_and_judged(void **state)
{
    (void)state;
    history_case c;
    history_line line;
    char verdict[HISTORY_VERDICT_MAX];
    begin(&c);
    begin_take(&line, "first");
    history_announce(&line, c.fd);
    history_number(&line, "number", 1);
    history_end(&line, c.fd, HISTORY_OK);
    begin_take(&line, "second");
    history_end(&line, c.fd, history_result_of(TIDE_E_CONFLICT));
    begin_take(&line, "third");
    history_announce(&line, c.fd);
    history_begin(&line, "reader", "read");
    history_text(&line, "sequence", "s\\\t\n\x01");
    history_number(&line, "after", 0);
    history_numbers(&line, "numbers", (const int64_t[]){1}, 1);
    history_texts(&line, "values", (const char *const[]){"first"}, 1);
    history_flag(&line, "more", false);
    history_end(&line, c.fd, HISTORY_OK);
    write_row(&c, 1, "first");
    write_row(&c, 2, "third");
    assert_ok_err(judge(&c, verdict), &c.err);
    assert_string_equal("sound: 1 takes, 1 reads, 2 rows, 1 sequences", verdict);
    end(&c);
}

static void a_violation_is_damage_and_names_its_rule(void **state)
{
    (void)state;
    history_case c;
    history_line line;
    char verdict[HISTORY_VERDICT_MAX];
    begin(&c);
    begin_take(&line, "first");
    history_number(&line, "number", 1);
    history_end(&line, c.fd, HISTORY_OK);
    write_row(&c, 1, "other");
    assert_status(TIDE_E_DAMAGED, judge(&c, verdict));
    assert_contains(c.err.text, "changed: ");
    end(&c);
}

/* Never sound: an empty file, a checker that does not exist. */
static void what_cannot_be_judged_is_a_failure(void **state)
{
    (void)state;
    history_case c;
    char verdict[HISTORY_VERDICT_MAX];
    begin(&c);
    assert_status(TIDE_E_FAILED, judge(&c, verdict));
    assert_contains(c.err.text, "no operation to judge");
    const char *const paths[] = {c.path, NULL};
    assert_status(TIDE_E_FAILED, history_judge("none.py", paths, verdict, &c.err));
    end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_and_judged),
        cmocka_unit_test(a_violation_is_damage_and_names_its_rule),
        cmocka_unit_test(what_cannot_be_judged_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
