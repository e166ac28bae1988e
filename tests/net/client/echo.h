/* echo.h - a gRPC server that others made (echo_server.py), as a process of its own. */
#pragma once

#include "support/process/proc.h"

typedef struct echo {
    proc process;
    int grpc_port;
    int http_port;
    int broken_port;
    char socket_path[256];
} echo;

/* With a certificate and its key it speaks TLS; with ca it asks for one. Each may be NULL. */
void echo_start(echo *e, const char *cert, const char *key, const char *ca);
void echo_stop(echo *e);
