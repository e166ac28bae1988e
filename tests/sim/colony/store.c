#include "base/cleanup.h"
#include "sim/colony/world.h"

#include <stdio.h>

static struct {
    tempdir dir;
    char agents[WORLD_AGENTS_MAX][TEMPDIR_PATH_MAX]; /* each with a session of its own */
    char colony[TEMPDIR_PATH_MAX];
} templates;

static void make(const char *path, virtual_env *clock, bool has_feed)
{
    tide_error err;
    tide_store *store = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = &clock->env,
                                        .is_inline = true, .state_dir = templates.dir.path};
    assert_ok_err(tide_store_open(&store, path, &options, &err), &err);
    if (has_feed) {
        tide_feed *feed = NULL;
        assert_ok_err(tide_feed_open(&feed, store, NULL, &err), &err);
        tide_feed_close(feed);
    }
    tide_store_close(store);
}

void world_templates_make(void)
{
    tide_error err;
    virtual_env clock;
    virtual_env_init(&clock, 1);
    assert_ok_err(tempdir_make(&templates.dir, &err), &err);
    for (int i = 0; i < WORLD_AGENTS_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "agent-%d.db", i);
        tempdir_join(&templates.dir, name, templates.agents[i]);
        make(templates.agents[i], &clock, true);
    }
    tempdir_join(&templates.dir, "colony.db", templates.colony);
    make(templates.colony, &clock, false);
    virtual_env_done(&clock);
}

void world_templates_remove(void)
{
    TIDE_IGNORE(tempdir_remove(&templates.dir, NULL));
}

const char *world_agent_template(int agent)
{
    return templates.agents[agent];
}

const char *world_colony_template(void)
{
    return templates.colony;
}
