#include "base/interface/caller.h"

#include "base/interface/sized.h"

tide_status tide_env_check(const tide_env *env, tide_error *err)
{
    TIDE_TRY(tide_sized_check(env, sizeof *env, "tide_env", err));
    if (env->wall_us && env->mono_us && env->boot_us && env->boot_id && env->random &&
        env->sleep_us)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "a function of the tide_env is NULL");
}

tide_status tide_callback_check(tide_status status, tide_error *err)
{
    if (tide_status_get(status)->status == status)
        return status;
    return tide_fail(err, TIDE_E_INVALID, "a callback returned %d, which is not a tide_status",
                     (int)status);
}
