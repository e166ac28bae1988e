#include "base/cleanup.h"
#include "sim/colony/world.h"

static struct {
    tempdir dir;
    char agent[TEMPDIR_PATH_MAX];
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
    tempdir_join(&templates.dir, "agent.db", templates.agent);
    tempdir_join(&templates.dir, "colony.db", templates.colony);
    make(templates.agent, &clock, true);
    make(templates.colony, &clock, false);
    virtual_env_done(&clock);
}

void world_templates_remove(void)
{
    TIDE_IGNORE(tempdir_remove(&templates.dir, NULL));
}

const char *world_agent_template(void)
{
    return templates.agent;
}

const char *world_colony_template(void)
{
    return templates.colony;
}
