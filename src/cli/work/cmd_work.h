/* cmd_work.h - the verbs of `tidemark work`, one file per group; the table is in cmd_work.c. */
#pragma once

#include <tidemark/work.h>

#include "cli/frame/cli.h"

/* cmd_work_add.c */
tide_status tide_cli_work_add(tide_cli *cli, tide_error *err);
/* Items from JSON lines: the follow-ups of finish. Texts live in the list until done. */
typedef struct tide_cli_items tide_cli_items;
TIDE_MUST_CHECK tide_status tide_cli_items_read(tide_cli_items **out, const char *source,
                                                const char *task_id, tide_error *err);
const tide_work_spec *tide_cli_items_get(const tide_cli_items *items, int *count);
void tide_cli_items_freep(tide_cli_items **items);
/* Of `work add` and `schedule add`, whose --timeout once limited the attempt: say what it means. */
void tide_cli_note_attempt_timeout(const tide_cli *cli);
/* {"work_item_id":...}, with "existing":true when it was there already. */
TIDE_MUST_CHECK tide_status tide_cli_print_added(tide_cli *cli, const tide_work_added *added,
                                                 tide_error *err);

/* cmd_work_lease.c: what is done under a token */
tide_status tide_cli_work_claim(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_renew(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_checkpoint(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_progress(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_finish(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_fail(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_release(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_next(tide_cli *cli, tide_error *err);

/* cmd_work_list.c */
tide_status tide_cli_work_show(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_list(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_explain(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_stats(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_types(tide_cli *cli, tide_error *err);

/* cmd_work_policy.c */
tide_status tide_cli_work_limit(tide_cli *cli, tide_error *err);
tide_status tide_cli_work_policy(tide_cli *cli, tide_error *err);

/* cmd_work_run.c */
tide_status tide_cli_work_run(tide_cli *cli, tide_error *err);
