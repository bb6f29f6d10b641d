-- Deletes what has ended, but for the row with the highest token, after which the next one is counted.
--
-- {kept}   for how many seconds a row is kept after it has ended
-- {batch}  how many rows are deleted at most
--
-- Returns how many were.
WITH ended AS (
    SELECT name FROM soloist_mutexes
    WHERE expires_at < clock_timestamp() - {kept} * interval '1 second'
        AND token < (SELECT max(token) FROM soloist_mutexes)
    ORDER BY expires_at LIMIT {batch} FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM soloist_mutexes AS held USING ended WHERE held.name = ended.name RETURNING 1
)
SELECT count(*) FROM deleted;
