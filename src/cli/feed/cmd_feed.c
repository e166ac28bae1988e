/* cmd_feed.c - tidemark feed: the table of its verbs. */
#include "cli/feed/cmd_feed.h"

tide_status tide_cli_feed_open(tide_cli *cli, tide_cli_feed_handle *out, tide_error *err)
{
    const tide_feed_options options = {TIDE_FEED_OPTIONS_INIT, .reserve_bytes = -1};
    TIDE_TRY(tide_cli_open_store(cli, &out->store, TIDE_STORE_AS_IS, err));
    return tide_feed_open(&out->feed, out->store, &options, err);
}

void tide_cli_feed_close(tide_cli_feed_handle *handle)
{
    tide_feed_close(handle->feed);
    tide_store_close(handle->store);
}

static const tide_cli_verb verbs[] = {
    {.name = "ls",
     .arguments = "",
     .summary = "list the streams: what is there, who lags, how long until something is lost",
     .details =
         "LAG is how many records the slowest reader has not settled. UNTIL LOSS is when the first "
         "of them\n"
         "is given up by age, by the retention that the agent last applied to this store; size may "
         "cut in\n"
         "earlier. Streams that nobody reads lose nothing.",
     .run = tide_cli_feed_ls},
    {.name = "show",
     .arguments = "STREAM",
     .takes = TIDE_CLI_LIST(LIMIT),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT,
                                      .fallback = "10",
                                      .max = 10000,
                                      .help = "so many of the newest holes and batches"}),
     .summary = "one stream: where it stands, its readers, its holes, its newest batches",
     .run = tide_cli_feed_show},
    {.name = "tail",
     .arguments = "STREAM",
     .takes = TIDE_CLI_LIST(FROM, FOLLOW, LIMIT),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_LIMIT, .fallback = "10", .help = "so many of the newest, without --from"}),
     .summary = "the newest records, or those from a number on; with --follow also what comes",
     .details = "Numbers that are gone are told on stderr. Nobody is remembered as a reader.",
     .run = tide_cli_feed_tail},
    {.name = "verify",
     .arguments = "[STREAM]",
     .summary = "read every batch and hold it against checksums, numbers, chain and counters",
     .details = "Ends with 0 when everything is sound, and with 8 after telling what is not. "
                "Others may go on writing.",
     .run = tide_cli_feed_verify},
    {.name = "dump",
     .arguments = "STREAM FILE",
     .takes = TIDE_CLI_LIST(FROM, TO),
     .summary = "write records as lines of JSON to FILE, or to stdout (-)",
     .details = "FILE must not exist; it appears when it is whole and synced. Damaged batches are "
                "passed over\n"
                "and told on stderr; it then ends with 8.",
     .run = tide_cli_feed_dump},
    {.name = "salvage",
     .arguments = "OUT",
     .summary = "copy what is readable of all streams into a new store",
     .details =
         "The same numbers and chains, under a new session. What cannot be read becomes a hole "
         "there, with a\n"
         "receipt; it then ends with 7.",
     .run = tide_cli_feed_salvage},
    {.name = NULL},
};

const tide_cli_command tide_cli_feed = {
    .name = "feed",
    .summary = "Streams of numbered records: look, follow, check, export, rescue.",
    .verbs = verbs,
};
