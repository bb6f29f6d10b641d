-- Adds to the number of occurrences of an event that were skipped for one reason.
--
-- {event}   the name of the event
-- {run}     the reason, in the place of a run
-- {latest}  the latest of them, in microseconds
-- {count}   how many there are more
INSERT INTO soloist_mutexes_runs (event, run, occurrence, host, pid, started_at, skipped, format)
VALUES (
    '{event}', '{run}', TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {latest} MICROSECOND, '', 0,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {latest} MICROSECOND, {count}, 'v1'
)
ON DUPLICATE KEY UPDATE
    skipped = skipped + VALUES(skipped), occurrence = GREATEST(occurrence, VALUES(occurrence)),
    started_at = GREATEST(started_at, VALUES(started_at));
