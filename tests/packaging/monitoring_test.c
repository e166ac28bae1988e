/* Alert rules and the dashboard: read by the programs that they are for, and about metrics that exist. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/metrics.h"
#include "services/replica/metrics.h"
#include "services/work/work_metrics.h"
#include "support/check.h"
#include "support/json.h"
#include "support/process/proc.h"

static void find_packaging(const char *name, char out[PATH_MAX])
{
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    (void)snprintf(out, PATH_MAX, "%s/packaging/%s", source ? source : ".", name);
}

static void run_promtool(const char *verb, const char *what, const char *file)
{
    char directory[PATH_MAX];
    const char *const argv[] = {"promtool", verb, what, file, NULL};
    proc_result result;
    tide_error err;
    find_packaging("prometheus", directory);
    assert_ok_err(
        proc_run(&result, &(proc_options){.argv = argv, .directory = directory}, 60000, &err),
        &err);
    if (result.exit_code != 0)
        fail_msg("promtool %s %s: %s%s", verb, what, result.out, result.err);
    proc_result_done(&result);
}

static void promtool_takes_the_rules(void **state)
{
    (void)state;
    run_promtool("check", "rules", "tidemark.rules.yml");
}

/* Each fires above its threshold and not below. */
static void the_alerts_fire_where_they_should(void **state)
{
    (void)state;
    run_promtool("test", "rules", "tidemark.rules.test.yml");
}

/* ---- names ---- */

/* As it is shown: with _total, or with what a histogram adds. */
static bool is_among(const char *name, const tide_metric_row *rows, size_t count)
{
    static const char *const parts[] = {"_bucket", "_sum", "_count"};
    for (size_t id = 0; id < count; id++) {
        const tide_metric_row *row = &rows[id];
        const size_t len = strlen(row->name);
        if (strncmp(name, row->name, len) != 0)
            continue;
        const char *rest = name + len;
        if (row->type == TIDE_METRIC_GAUGE && !*rest)
            return true;
        if (row->type == TIDE_METRIC_COUNTER && strcmp(rest, "_total") == 0)
            return true;
        for (size_t i = 0; row->type == TIDE_METRIC_HISTOGRAM && i < 3; i++)
            if (strcmp(rest, parts[i]) == 0)
                return true;
    }
    return false;
}

static bool is_shown(const char *name)
{
    size_t count = 0;
    const tide_metric_row *replica = tide_replica_metric_rows(&count);
    if (is_among(name, tide_metric_rows, TIDE_METRIC_COUNT) || is_among(name, replica, count))
        return true;
    const tide_metric_row *work = tide_work_metric_rows(&count);
    return is_among(name, work, count);
}

/* Words of PromQL that are no metrics. */
static bool is_known_word(const char *word)
{
    static const char *const words[] = {"agent_id",  "data_type",          "poller_type",
                                        "work_type", "histogram_quantile", "label_values"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

/* Every word with an underscore is a metric, or known, or the value of a label. Returns how many
 * metrics there were. */
static int check_names(const char *expression)
{
    int count = 0;
    for (const char *at = expression; *at;) {
        size_t len = 0;
        char word[128];
        while (isalnum((unsigned char)at[len]) || at[len] == '_')
            len++;
        if (*at == '"') {
            at += 1 + strcspn(at + 1, "\"");
            at += *at == '"';
            continue;
        }
        if (len == 0) {
            at++;
            continue;
        }
        (void)snprintf(word, sizeof word, "%.*s", (int)len, at);
        at += len;
        if (!strchr(word, '_') || is_known_word(word))
            continue;
        if (!is_shown(word))
            fail_msg("there is no metric %s, in %s", word, expression);
        count++;
    }
    return count;
}

static void the_dashboard_asks_for_metrics_that_exist(void **state)
{
    (void)state;
    char path[PATH_MAX];
    find_packaging("grafana/tidemark.json", path);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = NULL;
    size_t size = 0;
    assert_true(getdelim(&text, &size, '\0', file) > 0);
    (void)fclose(file);
    tide_json_node *dashboard = json_read(tide_view_of(text));
    free(text);
    const tide_json_node *panels = tide_json_node_find(dashboard, "panels");
    assert_true(tide_json_node_count(panels) >= 10);
    for (size_t i = 0; i < tide_json_node_count(panels); i++) {
        const tide_json_node *targets =
            tide_json_node_find(tide_json_node_at(panels, i), "targets");
        assert_true(tide_json_node_count(targets) > 0);
        for (size_t at = 0; at < tide_json_node_count(targets); at++) {
            const tide_json_node *expression =
                tide_json_node_find(tide_json_node_at(targets, at), "expr");
            assert_true(json_is_string(expression));
            assert_true(check_names(tide_json_node_text(expression)) > 0);
        }
    }
    tide_json_tree_free(dashboard);
}

static void the_alerts_ask_for_metrics_that_exist(void **state)
{
    (void)state;
    char path[PATH_MAX];
    char line[1024];
    int count = 0;
    find_packaging("prometheus/tidemark.rules.yml", path);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        const char *expression = strstr(line, "expr: ");
        if (expression)
            count += check_names(expression + 6);
    }
    (void)fclose(file);
    assert_int_equal(24, count);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promtool_takes_the_rules),
        cmocka_unit_test(the_alerts_fire_where_they_should),
        cmocka_unit_test(the_dashboard_asks_for_metrics_that_exist),
        cmocka_unit_test(the_alerts_ask_for_metrics_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
