-- Deletes the rows that ended more than 90 seconds ago. No call lasts that long, so a late copy still finds its row.
-- The row with the highest token stays, because the next token is counted from it. The row with the secret of the locks
-- stays, too, and so do rows that another transaction has locked.
--
-- batch:  the most rows to delete
--
-- Returns the number of deleted rows. `now()` is the time when the transaction began. With `clock_timestamp()`, the
-- server could use no index, and would read the whole table. The rows are deleted by their `ctid`, without another
-- search.
WITH deleted AS (
    DELETE FROM {mutexes} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {mutexes}
        WHERE expires_at < now() - interval '90 seconds' AND token < (SELECT max(token) FROM {mutexes})
            AND name <> 'advisory-key'
        ORDER BY expires_at LIMIT {batch} FOR UPDATE SKIP LOCKED
    )) AND v1 RETURNING 1
)
SELECT count(*) FROM deleted;
