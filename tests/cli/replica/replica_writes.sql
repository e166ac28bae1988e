-- Every form of write that SQLite knows, as applications make them. Run from the sqlite3 shell and from Python, with recursive triggers off and on.
PRAGMA foreign_keys = ON;
-- all rows at once: the truncate optimisation, where no trigger stands in its way
DELETE FROM child;
DELETE FROM parent;
DELETE FROM plain;
DELETE FROM uniq;
DELETE FROM pair;
DELETE FROM gen;
DELETE FROM strict_t;
DELETE FROM "we""ird";
DELETE FROM noisy;
-- inserts: one row, several, defaults, from a query, from a common table expression
INSERT INTO plain VALUES (1, 'one', 1.5, x'0102', 'u1', 1);
INSERT INTO plain (id, a, u) VALUES (2, 'two', 'u2'), (3, 'three', 'u3'), (4, NULL, NULL);
INSERT INTO plain DEFAULT VALUES;
INSERT INTO plain (a, b) SELECT a || '!', b FROM plain WHERE id <= 2;
WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 160) INSERT INTO plain (id, a, v) SELECT i, 'n' || i, i FROM n;
-- values at their edges
INSERT INTO plain (id, a, b, c) VALUES (200, '', -0.0, x''), (201, char(0) || 'after nul', 1e308, zeroblob(300)), (202, 'ö€😀', 9223372036854775807, x'ff00ff');
INSERT INTO plain (id, b) VALUES (203, -9223372036854775808), (204, 0.1), (205, 1e-320), (-7, 3);
INSERT INTO strict_t VALUES (1, 1), (2, 1.0), (3, '1'), (4, x'31'), (5, NULL), (6, -0.0), (7, 9007199254740993);
UPDATE strict_t SET x = 1.0 WHERE id = 1;
UPDATE strict_t SET x = '1.0' WHERE id = 2;
UPDATE strict_t SET x = CAST(x AS BLOB) WHERE id = 3;
-- updates: some columns, all rows, to the same value, by a query, from another table
UPDATE plain SET a = 'ONE' WHERE id = 1;
UPDATE plain SET a = a;
UPDATE plain SET v = NULL WHERE v > 150;
UPDATE plain SET b = (SELECT count(*) FROM pair), c = NULL WHERE id BETWEEN 100 AND 110;
UPDATE plain SET a = p.a || '/' || plain.id FROM (SELECT id, a FROM plain WHERE id < 4) AS p WHERE p.id = plain.id - 100;
UPDATE plain SET (a, b) = ('pair', 2.5) WHERE id = 4;
-- the key itself
UPDATE plain SET id = id + 1000 WHERE id BETWEEN 120 AND 125;
UPDATE plain SET id = -id WHERE id = 3;
UPDATE plain SET rowid = 3 WHERE id = -3;
-- OR REPLACE by the key, and by each unique index: rows vanish unseen
INSERT OR REPLACE INTO plain VALUES (1, 'again', NULL, NULL, 'u1', 1);
INSERT OR REPLACE INTO plain (id, a, u) VALUES (300, 'takes u2', 'u2');
INSERT OR REPLACE INTO plain (id, a, v) VALUES (301, 'takes v 101', 101);
INSERT OR REPLACE INTO plain (id, a, u, v) VALUES (302, 'takes three', 'u1', 102), (303, 'takes one more', 'u2', 103);
REPLACE INTO plain (id, a, u, v) VALUES (104, 'takes its own and another', 'u9', 105);
UPDATE OR REPLACE plain SET u = 'u9' WHERE id = 106;
UPDATE OR REPLACE plain SET v = 107 WHERE id IN (108, 109);
UPDATE OR REPLACE plain SET id = 111 WHERE id = 110;
INSERT INTO uniq VALUES ('a', 'a@x', 'TagA', 1, 0), ('b', 'b@x', 'TagB', 2, 200), ('c', 'c@x', NULL, 3, 300), ('d', NULL, 'TagD', 3, 0), ('e', NULL, NULL, 4, 0);
INSERT OR REPLACE INTO uniq VALUES ('f', 'a@x', NULL, 9, 0);
INSERT OR REPLACE INTO uniq VALUES ('g', NULL, 'tagb', 9, 1);
INSERT OR REPLACE INTO uniq VALUES ('h', NULL, NULL, 9, 300);
INSERT OR REPLACE INTO uniq VALUES ('i', 'f@x', 'TAGD', 4, 0), ('j', 'f@x', 'tagd', 5, 0);
INSERT OR REPLACE INTO uniq SELECT 'k' || id, email, tag, n + 10, big FROM uniq;
UPDATE OR REPLACE uniq SET tag = 'same', n = 77;
INSERT OR REPLACE INTO pair VALUES ('x', 1, 'first'), ('x', 2, 2), ('y', 1, 3.5), ('X', 1, 'another case');
INSERT OR REPLACE INTO pair VALUES ('x', 1, 'second');
UPDATE OR REPLACE pair SET b = 2 WHERE a = 'x' AND b = 1;
-- IGNORE, ABORT, FAIL, ROLLBACK
INSERT OR IGNORE INTO plain (id, a, u) VALUES (1, 'ignored', 'z'), (400, 'kept', 'u400'), (401, 'ignored', 'u400');
UPDATE OR IGNORE plain SET u = 'u400' WHERE id IN (112, 400);
INSERT OR IGNORE INTO uniq VALUES ('l', 'f@x', NULL, 1, 0), ('m', 'm@x', NULL, 1, 0);
-- upserts
INSERT INTO plain (id, a) VALUES (1, 'upserted') ON CONFLICT (id) DO UPDATE SET a = excluded.a || '+' || a;
INSERT INTO plain (id, a, u) VALUES (500, 'x', 'u400') ON CONFLICT (u) DO UPDATE SET b = 4.5 WHERE a = 'kept';
INSERT INTO plain (id, a, u) VALUES (501, 'x', 'u400') ON CONFLICT DO NOTHING;
INSERT INTO plain (id, a, u) VALUES (502, 'x', 'u400'), (503, 'y', 'u503') ON CONFLICT (id) DO NOTHING ON CONFLICT (u) DO UPDATE SET a = 'second clause', id = 504;
INSERT INTO pair VALUES ('x', 2, 'up') ON CONFLICT (a, b) DO UPDATE SET note = excluded.note, b = 5;
-- RETURNING
INSERT INTO plain (id, a) VALUES (600, 'r'), (601, 's') RETURNING id, a;
UPDATE plain SET a = a || '?' WHERE id >= 600 RETURNING *;
DELETE FROM plain WHERE id = 601 RETURNING rowid;
INSERT OR REPLACE INTO uniq VALUES ('n', 'm@x', NULL, 1, 0) RETURNING id;
-- WITHOUT ROWID
UPDATE pair SET note = x'00' WHERE a = 'y';
UPDATE pair SET a = 'z' WHERE a = 'y';
DELETE FROM pair WHERE b = 5;
-- generated columns
INSERT INTO gen (id, w, h) VALUES (1, 2, 3), (2, 4, 5);
UPDATE gen SET w = 10 WHERE id = 1;
INSERT OR REPLACE INTO gen (id, w, h) VALUES (3, 10, 3);
-- foreign keys: cascades, set null, set default, deferred
INSERT INTO parent VALUES (1, 'p1'), (2, 'p2'), (3, 'p3'), (4, 'p4'), (5, 'p5');
INSERT INTO child (id, parent, other) VALUES (1, 1, 2), (2, 1, 3), (3, 2, 4), (4, 3, NULL), (5, 5, 5);
UPDATE parent SET id = 30 WHERE id = 3;
DELETE FROM parent WHERE id = 1;
DELETE FROM parent WHERE id = 4;
INSERT OR REPLACE INTO parent VALUES (2, 'replaced, and its children went with it');
BEGIN;
INSERT INTO child (id, parent) VALUES (10, 77);
INSERT INTO parent VALUES (77, 'came later');
COMMIT;
-- transactions: rolled back, savepoints, several tables, a row that lived only inside
BEGIN;
DELETE FROM plain;
INSERT INTO plain (id, a) VALUES (1, 'never');
ROLLBACK;
BEGIN IMMEDIATE;
INSERT INTO plain (id, a) VALUES (700, 'outer');
SAVEPOINT s;
UPDATE plain SET a = 'inner' WHERE id = 700;
INSERT INTO pair VALUES ('inner', 1, NULL);
ROLLBACK TO s;
INSERT INTO pair VALUES ('outer', 1, NULL);
RELEASE s;
INSERT INTO plain (id, a) VALUES (701, 'short');
DELETE FROM plain WHERE id = 701;
COMMIT;
-- names that need quotes
INSERT INTO "we""ird" VALUES ('k', 1, 2), ('l', NULL, x'00'), ('m''n', '''; DROP TABLE plain; --', 4);
UPDATE "we""ird" SET "a ""b" = "ö", "ö" = 'new' WHERE "select" <> 'l';
UPDATE "we""ird" SET "select" = 'l2' WHERE "select" = 'l';
-- the application's own triggers write too
INSERT INTO noisy VALUES (1, 'a'), (2, 'b');
UPDATE noisy SET what = 'c' WHERE id = 2;
INSERT OR REPLACE INTO noisy VALUES (1, 'd');
DELETE FROM noisy WHERE id = 2;
DELETE FROM plain WHERE id IN (SELECT id FROM plain WHERE id % 7 = 0);
