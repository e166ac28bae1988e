#include "work/foreign/raw_work.h"

#include <stdio.h>
#include <string.h>

raw_sql *raw_work_begin(schema_case *c, void **state)
{
    *c = (schema_case){.t = *state};
    raw_open(&c->raw, c->t);
    raw_ok(&c->raw, "INSERT INTO tasks (task_id, title, status) VALUES ('t', 'T', 'running')");
    return &c->raw;
}

void raw_work_end(schema_case *c)
{
    raw_close(&c->raw);
}

void add_plainly(raw_sql *raw, const char *id)
{
    raw_ok(raw,
           "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('%s', 't', 'job')",
           id);
}

void claim_plainly(raw_sql *raw, const char *id, const char *holder)
{
    raw_ok(raw,
           "UPDATE work_items SET status = 'in_progress', lease_holder = '%s', lease_acquired_at = "
           "%s, "
           "lease_expires_at = %s, heartbeat_at = %s WHERE work_item_id = '%s'",
           holder, raw_time(raw, 0), raw_time(raw, 300), raw_time(raw, 0), id);
}

void claim_by_library(raw_sql *raw, const char *id, int seconds)
{
    static const char claim[] =
        "UPDATE work_items SET status = 'in_progress', lease_holder = 'lib', lease_via = 'api', "
        "lease_acquired_at = %s, lease_expires_at = %s, heartbeat_at = %s, updated_at = %s, "
        "lease_token = lease_token + 1099511627777, revision = revision + 1 "
        "WHERE work_item_id = '%s'";
    char statement[1024];
    (void)snprintf(statement, sizeof statement, claim, raw_time(raw, 0), raw_time(raw, seconds),
                   raw_time(raw, 0), raw_time(raw, 0), id);
    if (raw->engine == TIDE_ENGINE_SQLITE)
        raw_ok(raw, "%s", statement);
    else
        raw_ok(
            raw,
            "WITH claimed AS (%s RETURNING *), taken AS (DELETE FROM work_ready WHERE item_no IN "
            "(SELECT item_no FROM claimed)) INSERT INTO work_lease_ends (check_at, items) "
            "SELECT lease_expires_at, ARRAY[item_no] FROM claimed",
            statement);
}

int64_t token_of(raw_sql *raw, const char *id)
{
    return raw_number(raw, "SELECT lease_token FROM work_items WHERE work_item_id = '%s'", id);
}

const char *status_of(raw_sql *raw, const char *id)
{
    return raw_text(raw, "SELECT status FROM work_items WHERE work_item_id = '%s'", id);
}

void bring_to(raw_sql *raw, const char *id, const char *status)
{
    if (strcmp(status, "pending") == 0)
        return;
    claim_plainly(raw, id, "w");
    if (strcmp(status, "in_progress") != 0)
        raw_ok(raw, "UPDATE work_items SET status = '%s' WHERE work_item_id = '%s'", status, id);
}
