/* pq_library.h - the functions of libpq, the PostgreSQL client library, opened at run time.
 *
 * Only a process that uses a postgres:// store needs libpq and what it depends on, so nothing links
 * it. tide_pq_load opens it on first use: the file that $TIDEMARK_LIBPQ names (then no other is
 * tried), otherwise libpq.so.5 by the dynamic linker's rules, which begin with the program's own
 * run path. The library stays open until the process ends.
 *
 * Threads: tide_pq_load may be called from any thread. A thread reads tide_pq only after a
 * successful tide_pq_load, its own or that of the thread which gave it a connection. */
#pragma once

#include <libpq-fe.h>

#include <tidemark/error.h>

/* Every function of libpq that we call, without its prefix. */
#define TIDE_PQ_SYMBOLS(X)                                                                         \
    X(backendPID)                                                                                  \
    X(cancel)                                                                                      \
    X(clear)                                                                                       \
    X(cmdStatus)                                                                                   \
    X(cmdTuples)                                                                                   \
    X(connectPoll)                                                                                 \
    X(connectStartParams)                                                                          \
    X(connectdbParams)                                                                             \
    X(connectionNeedsPassword)                                                                     \
    X(conninfoFree)                                                                                \
    X(conninfoParse)                                                                               \
    X(consumeInput)                                                                                \
    X(enterPipelineMode)                                                                           \
    X(errorMessage)                                                                                \
    X(exec)                                                                                        \
    X(exitPipelineMode)                                                                            \
    X(finish)                                                                                      \
    X(flush)                                                                                       \
    X(fname)                                                                                       \
    X(freeCancel)                                                                                  \
    X(freemem)                                                                                     \
    X(ftype)                                                                                       \
    X(getCancel)                                                                                   \
    X(getisnull)                                                                                   \
    X(getlength)                                                                                   \
    X(getResult)                                                                                   \
    X(getvalue)                                                                                    \
    X(isBusy)                                                                                      \
    X(libVersion)                                                                                  \
    X(nfields)                                                                                     \
    X(notifies)                                                                                    \
    X(nparams)                                                                                     \
    X(ntuples)                                                                                     \
    X(parameterStatus)                                                                             \
    X(paramtype)                                                                                   \
    X(pipelineSync)                                                                                \
    X(putCopyData)                                                                                 \
    X(putCopyEnd)                                                                                  \
    X(resultErrorField)                                                                            \
    X(resultStatus)                                                                                \
    X(sendDescribePrepared)                                                                        \
    X(sendPrepare)                                                                                 \
    X(sendQuery)                                                                                   \
    X(sendQueryParams)                                                                             \
    X(sendQueryPrepared)                                                                           \
    X(serverVersion)                                                                               \
    X(setErrorVerbosity)                                                                           \
    X(setNoticeReceiver)                                                                           \
    X(setSingleRowMode)                                                                            \
    X(setnonblocking)                                                                              \
    X(socket)                                                                                      \
    X(status)                                                                                      \
    X(transactionStatus)                                                                           \
    X(unescapeBytea)

typedef struct tide_pq_api {
#define TIDE_PQ_FIELD(name) __typeof__(&PQ##name) name; /* NOLINT(bugprone-macro-parentheses) */
    TIDE_PQ_SYMBOLS(TIDE_PQ_FIELD)
#undef TIDE_PQ_FIELD
} tide_pq_api;

/* Empty until tide_pq_load has succeeded. */
extern tide_pq_api tide_pq;

/* Open the library if it is not open yet.
 * TIDE_E_UNAVAILABLE: it cannot be opened, or is too old. The next call tries again. */
TIDE_MUST_CHECK tide_status tide_pq_load(tide_error *err);
