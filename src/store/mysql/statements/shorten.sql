-- Lets each of these names end one term from now that would be held for longer: the server's clock was set back since it
-- was granted or renewed.
--
-- names:  the names
--
-- The time is read when the rows are locked: one that was read before may be earlier than a renewal that came in between.
START TRANSACTION;
SELECT COUNT(*) INTO @soloist_locked FROM {mutexes} FORCE INDEX (PRIMARY) WHERE name IN ({names}) FOR UPDATE;
SET @soloist_now = UTC_TIMESTAMP(6);
UPDATE {mutexes} FORCE INDEX (PRIMARY) SET expires_at = CAST(@soloist_now AS DATETIME(6)) + INTERVAL term_us MICROSECOND
WHERE name IN ({names}) AND NOT released
    AND expires_at > CAST(@soloist_now AS DATETIME(6)) + INTERVAL term_us MICROSECOND;
COMMIT
