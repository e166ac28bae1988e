/* messages.h - rows of a lake as messages of tidemark.lake.v1, for the service and for `tidemark lake --json`.
 *
 * Texts are borrowed, not copied: a message is encoded before the row goes away.
 *
 * Threads: pure. */
#pragma once

#include "lake/compact.h"
#include "lake/work.h"
#include "services/api/messages.h"
#include "tidemark_lake_v1_lake.pb-c.h"

#define LAKE(type_) Tidemark__Lake__V1__##type_
#define LAKE_INIT(type_) TIDEMARK__LAKE__V1__##type_##__INIT

void tide_lake_message_catalog(LAKE(Catalog) * out, const tide_lake_catalog *catalog);
void tide_lake_message_created(LAKE(CreatedCatalog) * out, const tide_lake_created *created);
void tide_lake_message_schema(LAKE(Schema) * out, const tide_lake_object *schema);
void tide_lake_message_difference(LAKE(Difference) * out, const tide_lake_difference *difference);
void tide_lake_message_committed(LAKE(Committed) * out, const tide_lake_work *work);
void tide_lake_message_compacted(LAKE(CompactResponse) * out, const tide_lake_compacted *done);
void tide_lake_message_finding(LAKE(Finding) * out, const tide_lake_finding *finding);

/* Verify: an encoded VerifyResponse. TIDE_E_DAMAGED: it has findings. */
TIDE_MUST_CHECK tide_status tide_lake_message_verify(tide_buffer *out, tide_lake *lake,
                                                     const char *catalog, tide_error *err);

/* "schema", "table", ..., as Difference has it. */
const char *tide_lake_kind_name(tide_lake_kind kind);

/* A table or view with its columns, and a snapshot, appended as an encoded message. */
TIDE_MUST_CHECK tide_status tide_lake_encode_table(tide_buffer *out, const char *schema,
                                                   const tide_lake_object *object,
                                                   const tide_lake_column *columns, int count,
                                                   tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_encode_snapshot(tide_buffer *out,
                                                      const tide_lake_snapshot *snapshot,
                                                      tide_error *err);
