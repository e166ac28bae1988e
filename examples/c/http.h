/* http.h - calls of Tidemark's services as JSON by POST, with libcurl and jansson.
 *
 * For what has no C interface of its own: agents and colonies are asked over the network, and so are lakes. Members are
 * named as the fields in the .proto files (docs/protocol.md, Plain JSON). tidemark.agent.v1 has protobuf's own mapping.
 *
 * Every call is sent again when its answer was lost or the service is away. That is safe because the examples make only calls
 * that may be repeated: with an id or a key that tells the service "this is the same one". */
#ifndef EXAMPLES_HTTP_H
#define EXAMPLES_HTTP_H

#include <jansson.h>

/* The answer, which is the caller's (json_decref). NULL: the service has decided otherwise, and http_reason says how. request is taken over. */
json_t *http_call(const char *url, const char *path, json_t *request);

/* Of the last call that failed: LEASE_LOST, CONFLICT, EXISTS, NOT_FOUND, INVALID, ... (docs/reference/errors.md), and its words. */
const char *http_reason(void);
const char *http_message(void);

/* A member that is a text, borrowed from the object; "" where there is none. */
const char *http_text(const json_t *object, const char *member);
/* A member that is a whole number; 0 where there is none. */
long long http_number(const json_t *object, const char *member);

/* Says what the last call failed with, and ends the program. */
_Noreturn void http_give_up(void);

#endif
