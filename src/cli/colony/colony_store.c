#include "cli/colony/colony_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.colony.v1.ColonyService/"

/* ---- opening ---- */

static tide_status open_store(const tide_cli *cli, const char *url, tide_store **out,
                              tide_store_mode mode, bool is_daemon, tide_error *err)
{
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = mode, .is_inline = !is_daemon};
    tide_cli_store_options(cli, &options);
    return tide_store_open(out, url, &options, err);
}

/* The rest of the line that begins with this word, with an end mark; NULL: there is none. Cuts the text up. */
static char *find_line(char *text, const char *word)
{
    for (char *line = text; *line;) {
        char *end = line + strcspn(line, "\r\n");
        if (strncmp(line, word, strlen(word)) == 0) {
            *end = '\0';
            return line + strlen(word);
        }
        line = end + strspn(end, "\r\n");
    }
    return NULL;
}

static tide_status connect(tide_cli *cli, tide_cli_colony *colony, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(8192);
    TIDE_TRY(tide_file_read(&text, colony->address_file, err));
    const char *named = getenv("TIDEMARK_COLONY");
    const char *token_file = tide_cli_text(cli, TIDE_CLI_TOKEN_FILE);
    char *words = strdup(tide_buffer_text(&text));
    TIDE_NEED_MEMORY(words, err);
    const char *ca_file = find_line(words, "ca ");
    const tide_client_options options = {.target = named ? named : find_line(words, ""),
                                         .ca_file = ca_file,
                                         .token_file = token_file,
                                         .token = token_file ? NULL : getenv("TIDEMARK_TOKEN")};
    const tide_status status = tide_client_open(&colony->remote, &options, err);
    free(words);
    return status;
}

tide_status tide_cli_service_open(tide_client **out, const tide_cli *cli, const char *address,
                                  tide_error *err)
{
    const char *token_file = tide_cli_text(cli, TIDE_CLI_TOKEN_FILE);
    const char *ca_file = tide_cli_text(cli, TIDE_CLI_SERVICE_CA);
    const char *cert_file = tide_cli_text(cli, TIDE_CLI_SERVICE_CERT);
    const bool has_scheme = strstr(address, "://") || strncmp(address, "unix:", 5) == 0;
    char target[TIDE_CLI_COLONY_PATH_MAX];
    (void)snprintf(target, sizeof target, "%s%s",
                   has_scheme             ? ""
                   : ca_file || cert_file ? "https://"
                                          : "http://",
                   address);
    const tide_client_options options = {.target = target,
                                         .ca_file = ca_file,
                                         .cert_file = cert_file,
                                         .key_file = tide_cli_text(cli, TIDE_CLI_SERVICE_KEY),
                                         .token_file = token_file,
                                         .token = token_file ? NULL : getenv("TIDEMARK_TOKEN"),
                                         .is_insecure =
                                             tide_cli_is_given(cli, TIDE_CLI_SERVICE_INSECURE)};
    return tide_client_open(out, &options, err);
}

static tide_status open_duckdb(tide_cli *cli, tide_cli_colony *colony, const char *path,
                               tide_store_mode mode, bool is_daemon, tide_error *err)
{
    char books[TIDE_CLI_COLONY_PATH_MAX];
    if (!*path || strlen(path) > sizeof books - 32)
        return tide_fail(err, TIDE_E_INVALID, "duckdb: wants the path of a file");
    (void)snprintf(colony->address_file, sizeof colony->address_file, "%s-colony.address", path);
    (void)snprintf(books, sizeof books, "sqlite:%s-books.db", path);
    TIDE_TRY(open_store(cli, books, &colony->store, mode, is_daemon, err));
    const tide_status status = tide_sink_open_duckdb(
        &colony->sink, colony->store, path, tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY), err);
    if (status != TIDE_E_BUSY || is_daemon)
        return status;
    if (access(colony->address_file, F_OK) != 0)
        return status; /* somebody has it who is no daemon of ours */
    return connect(cli, colony, err);
}

tide_scheduler_security tide_cli_colony_security(const tide_cli *cli)
{
    return (tide_scheduler_security){.ca_file = tide_cli_text(cli, TIDE_CLI_AGENT_CA),
                                     .cert_file = tide_cli_text(cli, TIDE_CLI_AGENT_CERT),
                                     .key_file = tide_cli_text(cli, TIDE_CLI_AGENT_KEY),
                                     .token_file = tide_cli_text(cli, TIDE_CLI_AGENT_TOKEN_FILE),
                                     .is_insecure =
                                         tide_cli_is_given(cli, TIDE_CLI_AGENT_INSECURE)};
}

/* Beside the file of a store; "" of a server. */
static void name_address_file(tide_cli_colony *colony, const char *url)
{
    static const char *const schemes[] = {"sqlite:", "duckdb:"};
    const char *path = url;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            path = url + strlen(schemes[i]);
    const bool is_file = !strstr(url, "://") && strlen(path) < sizeof colony->address_file - 32;
    (void)snprintf(colony->address_file, sizeof colony->address_file, "%s%s", is_file ? path : "",
                   is_file ? "-colony.address" : "");
}

tide_status tide_cli_colony_open(tide_cli *cli, tide_cli_colony *out, tide_store_mode mode,
                                 bool is_daemon, tide_error *err)
{
    static const char duckdb[] = "duckdb:";
    const char *url = tide_cli_text(cli, TIDE_CLI_STORE);
    const char *address = tide_cli_text(cli, TIDE_CLI_ADDRESS);
    if (address && !is_daemon)
        return tide_cli_service_open(&out->remote, cli, address, err);
    if (strncmp(url, duckdb, sizeof duckdb - 1) == 0) {
        TIDE_TRY(open_duckdb(cli, out, url + sizeof duckdb - 1, mode, is_daemon, err));
    } else {
        TIDE_TRY(open_store(cli, url, &out->store, mode, is_daemon, err));
        TIDE_TRY(tide_sink_open_sql(&out->sink, out->store, err));
        if (is_daemon)
            name_address_file(out, url);
    }
    out->colony = (tide_colony){.sink = out->sink,
                                .env = tide_env_system(),
                                .duckdb_library = tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY)};
    return TIDE_OK;
}

tide_status tide_cli_colony_reach(tide_cli *cli, tide_cli_colony *out, tide_error *err)
{
    name_address_file(out, tide_cli_text(cli, TIDE_CLI_STORE));
    if (!out->address_file[0] || access(out->address_file, F_OK) != 0)
        return TIDE_NONE;
    return connect(cli, out, err);
}

void tide_cli_colony_done(tide_cli_colony *colony)
{
    tide_client_close(colony->remote);
    tide_agent_clients_close(colony->links);
    tide_sink_close(colony->sink);
    tide_store_close(colony->store);
}

/* ---- calling ---- */

static tide_status call_there(const tide_cli_colony *colony, const char *method,
                              const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    char path[128];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    (void)snprintf(path, sizeof path, SERVICE "%s", method);
    TIDE_TRY(tide_rpc_pack(&bytes, request, err));
    const tide_client_request call = {.path = path,
                                      .message =
                                          tide_view_bytes(tide_buffer_text(&bytes), bytes.len),
                                      .timeout_us = INT64_C(600000000)};
    const tide_status status = tide_client_call(colony->remote, &call, &reply, err);
    if (status == TIDE_E_UNAUTHENTICATED)
        return tide_fail_context(
            err, status, "the service wants a token (--token-file FILE, or $TIDEMARK_TOKEN)");
    TIDE_TRY(status);
    const tide_buffer spare = *out;
    *out = reply.message;
    reply.message = spare;
    return TIDE_OK;
}

tide_status tide_cli_colony_call(tide_cli_colony *colony, const char *method,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *answers,
                                 ProtobufCMessage **response, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    if (colony->remote)
        TIDE_TRY(call_there(colony, method, request, &out, err));
    else
        TIDE_TRY(tide_colony_call(&colony->colony, method, request, &out, err));
    *response = protobuf_c_message_unpack(answers, NULL, out.len, (const uint8_t *)out.ptr);
    return *response ? TIDE_OK
                     : tide_fail(err, TIDE_E_DAMAGED, "the answer to %s cannot be read", method);
}

tide_status tide_cli_fleet_ask(tide_cli *cli, tide_cli_fleet *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    COLONY(FleetRequest) request = COLONY_INIT(FLEET_REQUEST);
    TIDE_TRY(tide_cli_colony_open(cli, &out->colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&out->colony, "Fleet", &request.base,
                                  &tidemark__colony__v1__fleet_response__descriptor, &response,
                                  err));
    out->answer = (COLONY(FleetResponse) *)response;
    return TIDE_OK;
}

void tide_cli_fleet_done(tide_cli_fleet *fleet)
{
    if (fleet->answer)
        protobuf_c_message_free_unpacked(&fleet->answer->base, NULL);
    tide_cli_colony_done(&fleet->colony);
}

tide_cli_standing tide_cli_fleet_standing(const COLONY(FleetLine) * line)
{
    tide_cli_standing sum = {.until_loss_ms = -1, .hold = ""};
    for (size_t i = 0; i < line->n_lag_records; i++)
        sum.lag_records += (int64_t)line->lag_records[i];
    for (size_t i = 0; i < line->n_lag_ms; i++)
        if ((int64_t)line->lag_ms[i] > sum.lag_ms)
            sum.lag_ms = (int64_t)line->lag_ms[i];
    for (size_t i = 0; i < line->n_until_loss_ms; i++) {
        const int64_t left = line->until_loss_ms[i];
        if (left >= 0 && (sum.until_loss_ms < 0 || left < sum.until_loss_ms))
            sum.until_loss_ms = left;
    }
    for (size_t i = 0; i < line->n_open_gaps; i++)
        sum.open_gaps += (int64_t)line->open_gaps[i];
    for (size_t i = 0; i < line->n_holds; i++)
        if (*line->holds[i])
            sum.hold = line->holds[i];
    return sum;
}

tide_status tide_cli_colony_ask_with(tide_cli *cli, tide_store_mode mode, bool asks_agents,
                                     const char *method, const ProtobufCMessage *request,
                                     const ProtobufCMessageDescriptor *answers,
                                     tide_cli_colony_fn *fn, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    TIDE_TRY(tide_cli_colony_open(cli, &colony, mode, false, err));
    if (asks_agents && !colony.remote) {
        const tide_scheduler_security security = tide_cli_colony_security(cli);
        TIDE_TRY(tide_agent_clients_open(&colony.links, &security, NULL, tide_env_system(), err));
        colony.colony.links = colony.links;
    }
    TIDE_TRY(tide_cli_colony_call(&colony, method, request, answers, &response, err));
    const tide_status status = fn ? fn(cli, response, err) : TIDE_OK;
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}
