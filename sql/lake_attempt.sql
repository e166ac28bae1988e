-- Attempts: who made a commit, and whether its files could be gone (src/lake/change.h, src/lake/commit.c).

-- migration: 4  version: 1.3  name: attempts  engine: sqlite
-- Made by each attempt to commit, whatever its request key: after a lost answer it tells an attempt's own commit from another's under the same key. NULL: a stock
-- client's commit, or an older program's.
ALTER TABLE lake_commit ADD COLUMN attempt_id varchar;

-- migration: 4  version: 1.3  name: attempts  engine: postgres
ALTER TABLE lake_commit ADD COLUMN attempt_id varchar;

-- Is the lease of the files of a commit still held? It is locked until the commit ends: clean-up deletes pins that have run out before it looks for files that no row names, so
-- it waits for a commit that was in time.
CREATE FUNCTION lake_pin_held(pin varchar, clock timestamptz) RETURNS boolean LANGUAGE plpgsql AS $lake$
BEGIN
    PERFORM 1 FROM lake_pin p WHERE p.pin_id = CAST(pin AS uuid) AND p.expires_at > coalesce(clock, clock_timestamp()) FOR KEY SHARE;
    RETURN FOUND;
END $lake$;

DROP FUNCTION lake_refuse(bigint, bigint, jsonb, varchar);

-- Called by a commit that has just locked the head of its catalog, with what it fears (src/lake/mark.h), its key and the pin of its files: fails the transaction when it must
-- not go on. The words are for the log; who is refused looks again for what it was.
CREATE FUNCTION lake_refuse(of_catalog bigint, base bigint, fears jsonb, key varchar, pin varchar, clock timestamptz) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    known_from bigint;
BEGIN
    SELECT h.oldest_base INTO known_from FROM lake_head h WHERE h.catalog_id = of_catalog;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('catalog %s is gone', of_catalog);
    END IF;
    IF key IS NOT NULL AND EXISTS (SELECT 1 FROM lake_commit c WHERE c.catalog_id = of_catalog AND c.request_key = key) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('request %s is done already', key);
    END IF;
    IF pin IS NOT NULL AND NOT lake_pin_held(pin, clock) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('pin %s has run out', pin);
    END IF;
    IF base < known_from THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('base %s is older than what conflicts are known of (%s)', base, known_from);
    END IF;
    IF EXISTS (SELECT 1 FROM jsonb_array_elements_text(fears) f
               WHERE EXISTS (SELECT 1 FROM lake_mark m WHERE m.catalog_id = of_catalog AND m.mark = f AND m.snapshot_id > base)) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('changed since base %s', base);
    END IF;
END $lake$;
