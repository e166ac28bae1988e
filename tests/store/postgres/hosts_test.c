/* Hosts of a URL, one by one. */
#include "store/postgres/pg_hosts.h"

#include "support/check.h"

static void read_url(tide_pg_hosts *hosts, const char *url)
{
    tide_error err;
    assert_ok_err(tide_pq_load(&err), &err);
    PQconninfoOption *parsed = tide_pq.conninfoParse(url, NULL);
    assert_non_null(parsed);
    tide_pg_hosts_read(hosts, parsed);
    tide_pq.conninfoFree(parsed);
}

static void assert_host(const tide_pg_hosts *hosts, int index, const char *name, const char *port)
{
    tide_pg_endpoint host;
    tide_pg_hosts_get(hosts, index, &host);
    assert_string_equal(name, host.host);
    assert_string_equal(port, host.port);
}

/* libpq ignores an empty port and then matches the whole list with the one host. */
static void each_host_has_its_own_port(void **state)
{
    (void)state;
    tide_pg_hosts hosts;
    read_url(&hosts, "postgres://db1,db2:5433,db3/x");
    assert_int_equal(3, hosts.count);
    assert_host(&hosts, 0, "db1", "5432");
    assert_host(&hosts, 1, "db2", "5433");
    assert_host(&hosts, 2, "db3", "5432");
    tide_pg_hosts_done(&hosts);
    read_url(&hosts, "postgres://db1,db2/x?port=6432");
    assert_host(&hosts, 1, "db2", "6432");
    tide_pg_hosts_done(&hosts);
    read_url(&hosts, "postgres:///x");
    assert_int_equal(1, hosts.count);
    assert_host(&hosts, 0, "", "");
    tide_pg_hosts_done(&hosts);
}

static void the_url_admits_any_server_a_primary_or_a_standby(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        tide_pg_wanted wanted;
    } rows[] = {{"postgres://a/x", TIDE_PG_WANTED_ANY},
                {"postgres://a/x?target_session_attrs=any", TIDE_PG_WANTED_ANY},
                {"postgres://a/x?target_session_attrs=read-write", TIDE_PG_WANTED_PRIMARY},
                {"postgres://a/x?target_session_attrs=primary", TIDE_PG_WANTED_PRIMARY},
                {"postgres://a/x?target_session_attrs=read-only", TIDE_PG_WANTED_STANDBY},
                {"postgres://a/x?target_session_attrs=prefer-standby", TIDE_PG_WANTED_STANDBY}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tide_pg_hosts hosts;
        read_url(&hosts, rows[i].url);
        assert_int_equal(rows[i].wanted, hosts.wanted);
        tide_pg_hosts_done(&hosts);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_has_its_own_port),
        cmocka_unit_test(the_url_admits_any_server_a_primary_or_a_standby),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
