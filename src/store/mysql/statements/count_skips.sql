-- Adds to the number of occurrences of an event that were skipped for one reason.
--
-- event:   the name of the event
-- run:     the reason, in the place of a run
-- latest:  the latest of them, in microseconds
-- count:   how many there are more
INSERT INTO {runs} (event, run, occurrence, host, pid, started_at, skipped, v1)
VALUES (
    '{event}', '{run}', TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {latest} MICROSECOND, '', 0,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {latest} MICROSECOND, {count}, TRUE
)
ON DUPLICATE KEY UPDATE
    skipped = skipped + VALUES(skipped), occurrence = GREATEST(occurrence, VALUES(occurrence)),
    started_at = GREATEST(started_at, VALUES(started_at));
