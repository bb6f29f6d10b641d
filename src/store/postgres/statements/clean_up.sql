-- Deletes what has ended, but for the row with the highest token, after which the next one is counted, and that with the
-- secret of the locks.
--
-- {kept}   for how many seconds a row is kept after it has ended
-- {batch}  how many rows are deleted at most
--
-- Returns how many were. The time is that at which this began: with one that goes on, no index is of use, and the whole
-- table is looked at. The rows are deleted where they were found, without another search, and unless they have another format:
-- a server that has no statistics would expect to find few of this one, and look at the whole table for them.
WITH deleted AS (
    DELETE FROM soloist_mutexes WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM soloist_mutexes
        WHERE expires_at < now() - {kept} * interval '1 second' AND token < (SELECT max(token) FROM soloist_mutexes)
            AND name <> 'advisory-key'
        ORDER BY expires_at LIMIT {batch} FOR UPDATE SKIP LOCKED
    )) AND format = 'v1' RETURNING 1
)
SELECT count(*) FROM deleted;
