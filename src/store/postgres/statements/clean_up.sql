-- Deletes what has ended 90 seconds ago, but for the row with the highest token, after which the next one is counted, and that
-- with the secret of the locks: no call lasts that long, so that a late copy finds its row. What another transaction has locked is
-- left.
--
-- batch:  how many rows are deleted at most
--
-- Returns how many were. The time is that at which this began: with one that goes on, no index is of use, and the whole
-- table is looked at. The rows are deleted where they were found, without another search.
WITH deleted AS (
    DELETE FROM {mutexes} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {mutexes}
        WHERE expires_at < now() - interval '90 seconds' AND token < (SELECT max(token) FROM {mutexes})
            AND name <> 'advisory-key'
        ORDER BY expires_at LIMIT {batch} FOR UPDATE SKIP LOCKED
    )) AND v1 RETURNING 1
)
SELECT count(*) FROM deleted;
