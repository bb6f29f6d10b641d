-- Deletes what has ended, but for the row with the highest token, after which the next one is counted.
--
-- {kept}   for how many seconds a row is kept after it has ended
-- {batch}  how many rows are deleted at most
--
-- Returns how many were.
SELECT COALESCE(MAX(token), 0) INTO @soloist_last FROM soloist_mutexes;
DELETE FROM soloist_mutexes WHERE expires_at < UTC_TIMESTAMP(6) - INTERVAL {kept} SECOND AND token < @soloist_last
ORDER BY expires_at LIMIT {batch};
SELECT ROW_COUNT()
