#include "base/interface/caller.h"

tide_status tide_callback_check(tide_status status, tide_error *err)
{
    if (tide_status_get(status)->status == status)
        return status;
    return tide_fail(err, TIDE_E_INVALID, "a callback returned %d, which is not a tide_status",
                     (int)status);
}
