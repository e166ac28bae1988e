#include "runtime/single_service.h"

void tide_single_service_done(tide_single_service *single)
{
    tide_listener_stop(single->listener); /* no calls from here on */
    if (single->component)
        single->close(single->component);
    tide_listener_close(single->listener);
    *single = (tide_single_service){.listener = NULL};
}

tide_status tide_single_service_serve(tide_single_service *single, tide_error *err)
{
    const tide_status status = tide_listener_serve(single->listener, err);
    if (status == TIDE_E_INTERRUPTED)
        *single = (tide_single_service){.listener = NULL};
    return status;
}
