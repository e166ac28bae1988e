-- Claim one job, then finish it: two transactions. max() makes a row of "nothing there", too.
WITH claimed AS (
    UPDATE jobs SET state = 'claimed', claimed_by = :client_id, claimed_at = now()
    WHERE id = (SELECT id FROM jobs WHERE state = 'ready' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
    RETURNING id
)
SELECT coalesce(max(id), 0) AS id FROM claimed \gset
UPDATE jobs SET state = 'done', done_at = now() WHERE id = :id;
