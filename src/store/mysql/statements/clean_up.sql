-- Deletes what has ended, but for the row with the highest token, after which the next one is counted.
--
-- {kept}      for how many seconds a row is kept after it has ended
-- {batch}     how many rows are deleted at most
-- {patience}  for how many seconds somebody else's transaction is waited for; only MariaDB can be told so, and reads it
--
-- Returns how many were.
SELECT COALESCE(MAX(token), 0) INTO @soloist_last FROM soloist_mutexes;
/*M!100300 SET STATEMENT innodb_lock_wait_timeout = {patience} FOR */
DELETE FROM soloist_mutexes WHERE expires_at < UTC_TIMESTAMP(6) - INTERVAL {kept} SECOND AND token < @soloist_last
    AND format = 'v1'
ORDER BY expires_at LIMIT {batch};
SELECT ROW_COUNT()
