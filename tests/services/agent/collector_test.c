/* collector_test.c - what a machine does, told by a /proc of our own making. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "services/agent/collector.h"
#include "support/check.h"
#include "support/clock/virtual_env.h"
#include "support/tempdir.h"

enum { SHOWN_MAX = 4 << 20 };

typedef struct collector_test {
    tempdir dir;
    virtual_env env;
    tide_collector *collector;
    tide_record_batch batch;
    tide_buffer shown;
    tide_error err;
} collector_test;

static void make_folder(const collector_test *t, const char *name)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, name, path);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void write_file(const collector_test *t, const char *name, const char *text)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, name, path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
}

static int begin(void **state)
{
    static collector_test t;
    memset(&t, 0, sizeof t);
    assert_ok_err(tempdir_make(&t.dir, &t.err), &t.err);
    virtual_env_init(&t.env, 1);
    assert_ok_err(tide_collector_new(&t.collector, t.dir.path, &t.env.env, &t.err), &t.err);
    tide_record_batch_init(&t.batch, tide_stream_type_of(TIDE_STREAM_SYSTEM_METRICS), 0);
    tide_buffer_init(&t.shown, SHOWN_MAX);
    make_folder(&t, "proc");
    make_folder(&t, "proc/net");
    make_folder(&t, "proc/self");
    make_folder(&t, "with space");
    *state = &t;
    return 0;
}

static int end(void **state)
{
    collector_test *t = *state;
    tide_collector_free(t->collector);
    virtual_env_done(&t->env);
    tide_record_batch_done(&t->batch);
    tide_buffer_done(&t->shown);
    assert_ok_err(tempdir_remove(&t->dir, &t->err), &t->err);
    return 0;
}

static const char *step(collector_test *t)
{
    tide_record_batch_clear(&t->batch);
    assert_ok_err(tide_collector_step(t->collector, &t->batch, &t->err), &t->err);
    tide_buffer_clear(&t->shown);
    tide_view rest = tide_buffer_view(&t->batch.bytes);
    tide_record record;
    while (tide_record_next(t->batch.type, &rest, &record) == TIDE_OK) {
        tide_record_row row;
        assert_ok(tide_record_decode(t->batch.type, record.message, &row));
        assert_ok(tide_record_row_json(&t->shown, t->batch.type, &row));
        assert_ok(tide_buffer_append_byte(&t->shown, '\n'));
    }
    return tide_buffer_text(&t->shown);
}

static void assert_metric(const char *shown, const char *name, const char *value, const char *unit,
                          const char *type, const char *attributes)
{
    char want[512];
    (void)snprintf(want, sizeof want,
                   "\"metric_name\":\"%s\",\"value\":%s,\"unit\":\"%s\",\"metric_type\":\"%s\","
                   "\"attributes\":{%s}}",
                   name, value, unit, type, attributes);
    assert_contains(shown, want);
}

static void processors_are_told_by_mode(void **state)
{
    collector_test *t = *state;
    write_file(t, "proc/stat",
               "cpu  1000 200 300 4000 50 6 7 8 90 0\ncpu0 500 100 150 2000 25 3 3 4 45 0\n"
               "cpu1 500 100 150 2000 25 3 4 4 45 0\nintr 5 0\nctxt 1\n");
    const char *shown = step(t);
    assert_metric(shown, "system.cpu.time", "10", "s", "counter", "\"cpu.mode\":\"user\"");
    assert_metric(shown, "system.cpu.time", "2", "s", "counter", "\"cpu.mode\":\"nice\"");
    assert_metric(shown, "system.cpu.time", "40", "s", "counter", "\"cpu.mode\":\"idle\"");
    assert_metric(shown, "system.cpu.time", "0.13", "s", "counter", "\"cpu.mode\":\"interrupt\"");
    assert_metric(shown, "system.cpu.time", "0.08", "s", "counter", "\"cpu.mode\":\"steal\"");
    assert_metric(shown, "system.cpu.logical.count", "2", "{cpu}", "gauge", "");
    assert_null(strstr(shown, "system.cpu.utilization")); /* of no time */
    write_file(t, "proc/stat", "cpu  1030 200 300 4070 50 6 7 8 90 0\n");
    assert_metric(step(t), "system.cpu.utilization", "0.3", "1", "gauge", "");
    /* counters that ran back say nothing */
    write_file(t, "proc/stat", "cpu  1 2 3 4 5 6 7 8\n");
    assert_null(strstr(step(t), "system.cpu.utilization"));
}

static void load_and_memory_are_gauges(void **state)
{
    collector_test *t = *state;
    write_file(t, "proc/loadavg", "0.25 1.50 12.75 3/456 7890\n");
    write_file(t, "proc/uptime", "12345.67 99999.00\n");
    write_file(t, "proc/meminfo",
               "MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    600 kB\n"
               "Buffers:          50 kB\nCached:          100 kB\nSwapCached:        9 kB\n"
               "SwapTotal:       500 kB\nSwapFree:        400 kB\nSReclaimable:     25 kB\n");
    const char *shown = step(t);
    assert_metric(shown, "system.cpu.load_average.1m", "0.25", "{thread}", "gauge", "");
    assert_metric(shown, "system.cpu.load_average.15m", "12.75", "{thread}", "gauge", "");
    assert_metric(shown, "system.process.count", "456", "{process}", "gauge", "");
    assert_contains(shown, "{\"seq_id\":0,\"timestamp\":1735689600000,"); /* the env's time */
    assert_metric(shown, "system.uptime", "12345.67", "s", "gauge", "");
    assert_metric(shown, "system.memory.usage", "537600", "By", "gauge",
                  "\"system.memory.state\":\"used\"");
    assert_metric(shown, "system.memory.usage", "128000", "By", "gauge",
                  "\"system.memory.state\":\"cached\"");
    assert_metric(shown, "system.memory.limit", "1024000", "By", "gauge", "");
    assert_metric(shown, "system.linux.memory.available", "614400", "By", "gauge", "");
    assert_metric(shown, "system.paging.usage", "102400", "By", "gauge",
                  "\"system.paging.state\":\"used\"");
}

static void disks_and_interfaces_are_counters(void **state)
{
    collector_test *t = *state;
    write_file(t, "proc/diskstats",
               "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n"
               " 259       0 nvme0n1 100 2 30 4000 50 6 70 8000 9 1500 11 0 0 0 0\n"
               " 259       1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11\n");
    write_file(t, "proc/net/dev",
               "Inter-|   Receive                                                |  Transmit\n"
               " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets "
               "errs drop fifo colls carrier compressed\n"
               "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
               "  eth0:1000 20 3 4 0 0 0 0 2000 30 5 6 0 0 0 0\n");
    make_folder(t, "sys");
    make_folder(t, "sys/block");
    make_folder(t, "sys/block/nvme0n1");
    const char *shown = step(t);
#define DISK "\"system.device\":\"nvme0n1\""
    assert_metric(shown, "system.disk.io", "15360", "By", "counter",
                  DISK ",\"disk.io.direction\":\"read\"");
    assert_metric(shown, "system.disk.io", "35840", "By", "counter",
                  DISK ",\"disk.io.direction\":\"write\"");
    assert_metric(shown, "system.disk.operations", "50", "{operation}", "counter",
                  DISK ",\"disk.io.direction\":\"write\"");
    assert_metric(shown, "system.disk.operation_time", "4", "s", "counter",
                  DISK ",\"disk.io.direction\":\"read\"");
    assert_metric(shown, "system.disk.io_time", "1.5", "s", "counter", DISK);
#undef DISK
    assert_null(strstr(shown, "loop0"));
    assert_null(strstr(shown, "nvme0n1p1"));
#define NET(direction)                                                                             \
    "\"network.interface.name\":\"eth0\",\"network.io.direction\":\"" direction "\""
    assert_metric(shown, "system.network.io", "1000", "By", "counter", NET("receive"));
    assert_metric(shown, "system.network.io", "2000", "By", "counter", NET("transmit"));
    assert_metric(shown, "system.network.errors", "5", "{error}", "counter", NET("transmit"));
    assert_metric(shown, "system.network.packet.dropped", "4", "{packet}", "counter",
                  NET("receive"));
#undef NET
    assert_null(strstr(shown, "\"lo\""));
}

/* Each device once; the root whatever it is; never one of the network. */
static void file_systems_are_asked_once_per_device(void **state)
{
    collector_test *t = *state;
    write_file(t, "proc/self/mounts",
               "overlay / overlay rw 0 0\nproc /proc proc rw 0 0\n"
               "/dev/sda1 /with\\040space ext4 rw 0 0\n/dev/sda1 /again ext4 rw 0 0\n"
               "server:/x /net nfs4 rw 0 0\n/dev/gone /not/there ext4 rw 0 0\n");
    const int64_t before = tide_collector_unreadable(t->collector);
    const char *shown = step(t);
    assert_contains(shown, "\"metric_name\":\"system.filesystem.usage\"");
    assert_contains(shown,
                    "\"system.device\":\"overlay\",\"system.filesystem.mountpoint\":\"/\","
                    "\"system.filesystem.type\":\"overlay\",\"system.filesystem.state\":\"used\"");
    assert_contains(shown, "\"system.filesystem.mountpoint\":\"/with space\"");
    assert_contains(shown, "\"metric_name\":\"system.filesystem.utilization\"");
    assert_null(strstr(shown, "/again"));
    assert_null(strstr(shown, "nfs"));
    assert_null(strstr(shown, "\"/proc\""));
    assert_true(tide_collector_unreadable(t->collector) >
                before); /* /not/there, and the files that are missing */
}

/* Files that are missing, empty or nonsense are no reason to fail. */
static void what_cannot_be_read_is_left_out(void **state)
{
    collector_test *t = *state;
    assert_string_equal(step(t), "");
    assert_int_equal(t->batch.count, 0);
    assert_int_equal(tide_collector_unreadable(t->collector), 7);
    static const char *const files[] = {"proc/stat",    "proc/loadavg",   "proc/uptime",
                                        "proc/meminfo", "proc/diskstats", "proc/self/mounts",
                                        "proc/net/dev"};
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "cpu",
                                        "x",
                                        ":::\n: :\n",
                                        "a b c d e f\n",
                                        "cpu 99999999999999999999999999 -1 x\n",
                                        "\\04"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t f = 0; f < sizeof files / sizeof files[0]; f++)
            write_file(t, files[f], texts[i]);
        (void)step(t);
    }
}

/* More interfaces than are told. */
static void the_number_of_devices_is_bounded(void **state)
{
    collector_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 1 << 20);
    for (int i = 0; i < 2 * TIDE_COLLECTOR_DEVICES_MAX; i++)
        assert_ok(tide_buffer_printf(&text, "veth%d: 1 2 3 4 5 6 7 8 9\n", i));
    write_file(t, "proc/net/dev", tide_buffer_text(&text));
    (void)step(t);
    assert_int_equal(t->batch.count, 8 * TIDE_COLLECTOR_DEVICES_MAX);
}

/* A batch without room: told, and what fitted stays. */
static void a_full_batch_is_told(void **state)
{
    collector_test *t = *state;
    write_file(t, "proc/loadavg", "0.25 1.50 12.75 3/456 7890\n");
    tide_record_batch narrow;
    tide_record_batch_init(&narrow, tide_stream_type_of(TIDE_STREAM_SYSTEM_METRICS), 100);
    assert_status(TIDE_E_LIMIT, tide_collector_step(t->collector, &narrow, &t->err));
    assert_int_equal(narrow.count, 1);
    tide_record_batch_done(&narrow);
    char root[TIDE_COLLECTOR_ROOT_MAX + 1];
    memset(root, 'x', sizeof root);
    root[sizeof root - 1] = '\0';
    tide_collector *other = NULL;
    assert_status(TIDE_E_INVALID, tide_collector_new(&other, root, &t->env.env, &t->err));
    assert_null(other);
}

/* This machine, whatever it is. */
static void the_real_machine_has_something_to_tell(void **state)
{
    collector_test *t = *state;
    TIDE_CLEANUP(tide_collector_freep) tide_collector *real = NULL;
    assert_ok(tide_collector_new(&real, NULL, tide_env_system(), &t->err));
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, tide_stream_type_of(TIDE_STREAM_SYSTEM_METRICS), 0);
    assert_ok_err(tide_collector_step(real, &batch, &t->err), &t->err);
    assert_true(batch.count > 10);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(processors_are_told_by_mode, begin, end),
        cmocka_unit_test_setup_teardown(load_and_memory_are_gauges, begin, end),
        cmocka_unit_test_setup_teardown(disks_and_interfaces_are_counters, begin, end),
        cmocka_unit_test_setup_teardown(file_systems_are_asked_once_per_device, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_left_out, begin, end),
        cmocka_unit_test_setup_teardown(the_number_of_devices_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(a_full_batch_is_told, begin, end),
        cmocka_unit_test_setup_teardown(the_real_machine_has_something_to_tell, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
