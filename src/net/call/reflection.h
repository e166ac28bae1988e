/* reflection.h - gRPC server reflection, v1 and v1alpha: clients like grpcurl learn what there is.
 *
 *     TIDE_TRY(tide_reflection_new(&reflection, set, err));
 *     TIDE_TRY(tide_reflection_add_methods(reflection, my_methods, err));      for every table
 *     register tide_reflection_methods with the reflection as its argument
 *
 * Every request of a stream is answered by one message, in order: a file with everything it
 * imports, the numbers of extensions, the list of services, or an error (in the message: the stream
 * goes on). Nothing is remembered between them. The two versions have the same bytes.
 *
 * The list of services is what was added and can be described, in the order of names; services
 * whose files are not in the set (OTLP) are served unlisted. Files are found whether they are
 * served or not.
 *
 * Threads: add everything first; from then on immutable. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "net/call/call.h"

enum {
    TIDE_REFLECTION_SERVICES_MAX = 256,
    TIDE_REFLECTION_RESPONSE_MAX = 32 << 20, /* bytes */
};

typedef struct tide_reflection tide_reflection;

/* Rows for both versions; their argument is the tide_reflection. */
extern const tide_method tide_reflection_methods[];

/* set is a FileDescriptorSet that outlives it; one whose ptr is NULL stands for the embedded one.
 * TIDE_E_INVALID, TIDE_E_LIMIT, TIDE_E_NOMEM: see descriptor.h. */
TIDE_MUST_CHECK tide_status tide_reflection_new(tide_reflection **out, tide_view set,
                                                tide_error *err);
void tide_reflection_free(tide_reflection *reflection);
TIDE_CLEANUP_FN(tide_reflection_freep, tide_reflection, tide_reflection_free)

/* List the services of these rows that the set describes. The table must outlive the reflection.
 * TIDE_E_LIMIT: too many.
 * TIDE_E_INVALID: a path that is not /service/method. */
TIDE_MUST_CHECK tide_status tide_reflection_add_methods(tide_reflection *reflection,
                                                        const tide_method *methods,
                                                        tide_error *err);

/* Append the ServerReflectionResponse to a ServerReflectionRequest. TIDE_E_INVALID: it is none.
 * TIDE_E_LIMIT, TIDE_E_NOMEM. On a failure out is as before. */
TIDE_MUST_CHECK tide_status tide_reflection_respond(const tide_reflection *reflection,
                                                    tide_view request, tide_buffer *out,
                                                    tide_error *err);
