#include "runtime/single_service.h"

void tide_single_service_done(tide_single_service *solo)
{
    tide_listener_stop(solo->front); /* no calls from here on */
    if (solo->part)
        solo->close(solo->part);
    tide_listener_close(solo->front);
    *solo = (tide_single_service){.front = NULL};
}

tide_status tide_single_service_serve(tide_single_service *solo, tide_error *err)
{
    const tide_status status = tide_listener_serve(solo->front, err);
    if (status == TIDE_E_INTERRUPTED)
        *solo = (tide_single_service){.front = NULL};
    return status;
}
