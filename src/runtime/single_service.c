#include "runtime/single_service.h"

void tide_solo_done(tide_solo *solo)
{
    tide_front_stop(solo->front); /* no calls from here on */
    if (solo->part)
        solo->close(solo->part);
    tide_front_close(solo->front);
    *solo = (tide_solo){.front = NULL};
}

tide_status tide_solo_serve(tide_solo *solo, tide_error *err)
{
    const tide_status status = tide_front_serve(solo->front, err);
    if (status == TIDE_E_INTERRUPTED)
        *solo = (tide_solo){.front = NULL};
    return status;
}
