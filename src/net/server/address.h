/* address.h - where a server listens, and who connected, as text.
 *
 *     127.0.0.1:4317   localhost:0   [::1]:4317   :4317 (every address)   unix:/run/tidemark.sock
 *
 * A unix socket's file that nobody listens on any more is replaced; one that somebody does is an
 * error.
 *
 * Threads: safe. Limits: TIDE_ADDRESS_TEXT_MAX. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

enum { TIDE_ADDRESS_TEXT_MAX = 128, TIDE_ADDRESS_BACKLOG = 1024 };

/* TIDE_E_INVALID: the text is not an address. The host is not looked up. */
TIDE_MUST_CHECK tide_status tide_address_check(const char *text, tide_error *err);

/* A socket that listens; the caller's. bound is where it does, with the port that was picked for 0.
 * TIDE_E_INVALID: not an address. TIDE_E_EXISTS: somebody listens there. TIDE_E_DENIED,
 * TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_address_listen(int *fd, const char *text,
                                                char bound[TIDE_ADDRESS_TEXT_MAX], tide_error *err);

/* "127.0.0.1:40000", "[::1]:40000", "unix:" */
void tide_address_text(char out[TIDE_ADDRESS_TEXT_MAX], const struct sockaddr *address);
