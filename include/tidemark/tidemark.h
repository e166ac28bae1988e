/* tidemark.h - the whole public interface. */
#ifndef TIDEMARK_TIDEMARK_H
#define TIDEMARK_TIDEMARK_H

#include <tidemark/colony.h>
#include <tidemark/cursor.h>
#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/feed.h>
#include <tidemark/idempotency.h>
#include <tidemark/identity.h>
#include <tidemark/journal.h>
#include <tidemark/lake.h>
#include <tidemark/lease.h>
#include <tidemark/replica.h>
#include <tidemark/sequence.h>
#include <tidemark/status.h>
#include <tidemark/store.h>
#include <tidemark/token.h>
#include <tidemark/view.h>
#include <tidemark/watch.h>
#include <tidemark/work.h>
#include <tidemark/worker.h>

#endif
