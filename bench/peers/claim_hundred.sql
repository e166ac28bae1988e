-- Claim a hundred jobs, then finish them: two transactions.
WITH picked AS MATERIALIZED (
    SELECT id FROM jobs WHERE state = 'ready' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 100
), claimed AS (
    UPDATE jobs SET state = 'claimed', claimed_by = :client_id, claimed_at = now()
    FROM picked WHERE jobs.id = picked.id
    RETURNING jobs.id
)
SELECT coalesce(array_agg(id), '{}') AS ids FROM claimed \gset
UPDATE jobs SET state = 'done', done_at = now() WHERE id = ANY (:ids::bigint[]);
