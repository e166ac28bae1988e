/* cmd_lake_serve.c - tidemark lake serve: catalogs over the network. */
#include "base/cleanup.h"
#include "cli/frame/listener_options.h"
#include "cli/lake/cmd_lake.h"
#include "runtime/listener.h"
#include "services/lake/laked.h"

static void close_component(void *component)
{
    tide_laked_close(component);
}

tide_status tide_cli_lake_serve(tide_cli *cli, tide_error *err)
{
    tide_log log;
    tide_listener_options options;
    const char *data_dir = tide_cli_text(cli, TIDE_CLI_DATA);
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options, err));
    options.ports[0] =
        (tide_listener_port){.name = "listen", .address = tide_cli_text(cli, TIDE_CLI_LISTEN)};
    options.port_count = 1;
    options.steps = tidemark_lake_steps;
    tide_cli_keep_signals_back();
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(
        tide_cli_open_store(cli, &store, data_dir ? TIDE_STORE_CREATE : TIDE_STORE_EXISTING, err));
    options.store = store;
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    tide_laked *laked = NULL;
    const tide_laked_options lake = {.store = store,
                                     .store_url = tide_cli_text(cli, TIDE_CLI_STORE),
                                     .data_dir = data_dir,
                                     .duckdb_library = tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY),
                                     .desks = (int)tide_cli_number(cli, TIDE_CLI_DESKS)};
    TIDE_TRY(tide_listener_open(&single.listener, &options, err));
    TIDE_TRY(tide_laked_open(&laked, single.listener, &lake, err));
    single.component = laked;
    return tide_cli_after_serving(tide_single_service_serve(&single, err));
}
