/* net_test_server.c - a server of the test service, as a program: net-test-server ADDRESS... [name=value...]
 *
 *     name=value   a row of the limits; or auth=1, insecure=1, cert=FILE, key=FILE, ca=FILE, verify=1
 *
 * Prints "ready ADDRESS..." and serves until it gets SIGTERM or its input ends; then it drains and says "done". */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/server/server.h"
#include "net/test_service.h"

typedef struct setting {
    tide_net_limits limits;
    tide_tls_options tls;
    bool has_auth;
    bool is_insecure;
    const char *addresses[TIDE_SERVER_LISTEN_MAX + 1];
    size_t address_count;
} setting;

static bool set_limit(tide_net_limits *limits, const char *name, size_t len, const char *value)
{
    size_t count;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(rows[i].name) != len || strncmp(rows[i].name, name, len) != 0)
            continue;
        const int64_t number = strtoll(value, NULL, 10);
        memcpy((char *)limits + rows[i].offset, &number, sizeof number);
        return true;
    }
    return false;
}

static bool set_word(setting *s, const char *word)
{
    const char *equal = strchr(word, '=');
    if (!equal) {
        if (s->address_count == TIDE_SERVER_LISTEN_MAX)
            return false;
        s->addresses[s->address_count++] = word;
        return true;
    }
    const char *value = equal + 1;
    const size_t len = (size_t)(equal - word);
    if (len == 4 && strncmp(word, "auth", len) == 0)
        s->has_auth = true;
    else if (len == 8 && strncmp(word, "insecure", len) == 0)
        s->is_insecure = true;
    else if (len == 4 && strncmp(word, "cert", len) == 0)
        s->tls.cert_file = value;
    else if (len == 3 && strncmp(word, "key", len) == 0)
        s->tls.key_file = value;
    else if (len == 2 && strncmp(word, "ca", len) == 0)
        s->tls.ca_file = value;
    else if (len == 6 && strncmp(word, "verify", len) == 0)
        s->tls.verify = TIDE_TLS_VERIFY_OPTIONAL;
    else
        return set_limit(&s->limits, word, len, value);
    return true;
}

static void wait_for_end(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    struct pollfd fds[2] = {{.fd = signalfd(-1, &signals, SFD_CLOEXEC), .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};
    (void)poll(fds, 2, -1);
}

static tide_status serve(const setting *s, tide_error *err)
{
    TIDE_CLEANUP(tide_tls_closep) tide_tls *tls = NULL;
    TIDE_CLEANUP(tide_routes_freep) tide_routes *routes = NULL;
    test_service service = {0};
    if (s->tls.cert_file)
        TIDE_TRY(tide_tls_open_server(&tls, &s->tls, err));
    TIDE_TRY(tide_routes_new(&routes, err));
    TIDE_TRY(test_service_add(&service, routes, err));
    const tide_server_options options = {
        .listen = s->addresses,
        .routes = routes,
        .limits = &s->limits,
        .authorise = s->has_auth ? test_service_authorise : NULL,
        .tls = tls,
        .is_insecure = s->is_insecure,
    };
    tide_server *server = NULL;
    TIDE_TRY(tide_server_open(&server, &options, err));
    service.counters = tide_server_counters(server);
    service.server = server;
    (void)printf("ready");
    for (size_t i = 0; tide_server_address(server, i); i++)
        (void)printf(" %s", tide_server_address(server, i));
    (void)printf("\n");
    (void)fflush(stdout);
    wait_for_end();
    tide_server_close(server);
    (void)printf("done\n");
    return TIDE_OK;
}

int main(int argc, char **argv)
{
    setting s = {0};
    tide_net_limits_init(&s.limits);
    for (int i = 1; i < argc; i++) {
        if (!set_word(&s, argv[i])) {
            (void)fprintf(stderr, "net-test-server: what is '%s'?\n", argv[i]);
            return TIDE_EXIT_USAGE;
        }
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    tide_error err = {0};
    const tide_status status = serve(&s, &err);
    if (status == TIDE_OK)
        return 0;
    (void)fprintf(stderr, "net-test-server: %s\n", err.text);
    return (int)tide_status_get(status)->exit_code;
}
