/* quote.h - the one place that puts a text of somebody else's between quotes for DuckDB.
 *
 * Statements on files cannot be prepared once: names of columns, field ids, lists of files are part of their text. They are templates in
 * sql/duckdb_lake.sql, and what fills their holes is a number, a name (quoted by the template), a type that types.h has checked, or a text that was
 * quoted here. Between single quotes DuckDB knows no escape but the doubled quote, so nothing leaves them. C strings hold no NUL.
 *
 * Results lie in the arena; NULL: no memory. Threads: pure, apart from the arena. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"

/* 'it''s' */
TIDE_MUST_CHECK char *tide_lake_quote_text(tide_arena *arena, const char *text);
/* "a ""name""", as DuckDB writes names in statistics. */
TIDE_MUST_CHECK char *tide_lake_quote_name(tide_arena *arena, const char *name);
/* The path of one file, as a text: *, ? and [ mean themselves, not a pattern. */
TIDE_MUST_CHECK char *tide_lake_quote_path(tide_arena *arena, const char *path);
/* Would DuckDB take the path for a pattern? */
bool tide_lake_is_pattern(const char *path);
