/* cmd_feed.h - the verbs of tidemark feed, and how they open a feed. */
#pragma once

#include <tidemark/feed.h>

#include "cli/frame/cli.h"

/* A store and the feed on it. */
typedef struct tide_cli_feed_handle {
    tide_store *store;
    tide_feed *feed;
} tide_cli_feed_handle;

/* For reading only: no reserve is made, no receipt is written. To be closed also after a failure. */
TIDE_MUST_CHECK tide_status tide_cli_feed_open(tide_cli *cli, tide_cli_feed_handle *out,
                                               tide_error *err);
/* Fits TIDE_CLEANUP. */
void tide_cli_feed_close(tide_cli_feed_handle *handle);

tide_status tide_cli_feed_ls(tide_cli *cli, tide_error *err);
tide_status tide_cli_feed_show(tide_cli *cli, tide_error *err);
