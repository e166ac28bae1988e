/* authority.h - host and port of a request, as Host, :authority and absolute targets carry them.
 *
 *     localhost    agent.example.com:4318    127.0.0.1:80    [::1]:80
 *
 * A text is parsed to its last byte or refused. What stands behind a bracket or a colon is never
 * ignored: a check that reads only the beginning would take "[::1]evil.example" and
 * "localhost:evil" for this machine.
 *
 * Threads: pure. */
#pragma once

#include <stdbool.h>

#include <tidemark/view.h>

typedef struct tide_authority {
    tide_view host; /* without brackets; len 0: an empty Host names nothing */
    bool is_v6;     /* an IPv6 address, which was in brackets */
    int port;       /* -1: none was given */
} tide_authority;

/* Borrows from text. false: user information, a port that is none, a byte that no host has. */
bool tide_authority_parse(tide_authority *out, tide_view text);

/* Do both name the same host and port? Case is ignored; a port that was not given is
 * default_port. */
bool tide_authority_equal(const tide_authority *one, const tide_authority *other, int default_port);
