-- Moves the end of these names to one term from now, if the names are to end later than that. If so, the server's clock
-- was set back after the last grant or renewal.
--
-- names:  the names
--
-- A term below 0 was not written by soloist, and counts as 0.
--
-- The time is read after the rows were locked. Otherwise it could be earlier than a renewal that came before the lock.
START TRANSACTION;
SELECT COUNT(*) INTO @soloist_locked FROM {mutexes} FORCE INDEX (PRIMARY) WHERE name IN ({names}) FOR UPDATE;
SET @soloist_now = UTC_TIMESTAMP(6);
UPDATE {mutexes} FORCE INDEX (PRIMARY) SET expires_at = CAST(@soloist_now AS DATETIME(6)) + INTERVAL GREATEST(term_us, 0) MICROSECOND
WHERE name IN ({names}) AND NOT released
    AND expires_at > CAST(@soloist_now AS DATETIME(6)) + INTERVAL GREATEST(term_us, 0) MICROSECOND;
COMMIT
