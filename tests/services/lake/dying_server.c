/* dying_server.c URL DIR - serves a lake until the first append has been committed; then it is gone, as with kill -9, before anybody is answered.
 *
 * The answer's function is wrapped by the linker: an append's never comes to the wire. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/call/call.h"
#include "services/lake/laked.h"

void __real_tide_call_respond(tide_call *call, tide_view message);
void __wrap_tide_call_respond(tide_call *call, tide_view message);

void __wrap_tide_call_respond(tide_call *call, tide_view message)
{
    if (strstr(tide_call_path(call), "/Append"))
        (void)kill(getpid(), SIGKILL);
    __real_tide_call_respond(call, message);
}

static tide_status serve(const char *url, const char *dir, tide_error *err)
{
    tide_log log;
    tide_log_init(&log, stderr, tide_env_system(), TIDE_LOG_LOGFMT, TIDE_LOG_WARN);
    tide_listener_options options = {.log = &log,
                                     .env = tide_env_system(),
                                     .steps = tidemark_lake_steps,
                                     .version = "test",
                                     .ports = {{.name = "listen", .address = "127.0.0.1:0"}},
                                     .port_count = 1};
    tide_net_limits_init(&options.limits);
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_CLEANUP(tide_listener_closep) tide_listener *listener = NULL;
    tide_laked *laked = NULL; /* it never comes to its end */
    TIDE_TRY(tide_store_open(&store, url, NULL, err));
    options.store = store;
    TIDE_TRY(tide_listener_open(&listener, &options, err));
    TIDE_TRY(tide_laked_open(&laked, listener,
                             &(tide_laked_options){.store = store, .data_dir = dir}, err));
    return tide_listener_serve(listener, err);
}

int main(int argc, char **argv)
{
    tide_error err = {0};
    if (argc != 3)
        return 2;
    if (serve(argv[1], argv[2], &err) >= TIDE_OK)
        return 0;
    (void)fprintf(stderr, "%s\n", err.text);
    return 1;
}
