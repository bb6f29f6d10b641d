-- Adds to the number of an event's occurrences that were skipped for one reason.
--
-- event:   the name of the event
-- run:     the reason, in place of the id of a run
-- latest:  the latest of the skipped occurrences, in microseconds
-- count:   the number to add
INSERT INTO {runs} (event, run, occurrence, host, pid, started_at, skipped, v1)
VALUES (
    '{event}', '{run}', TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {latest} MICROSECOND, '', 0,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {latest} MICROSECOND, {count}, TRUE
)
ON DUPLICATE KEY UPDATE
    skipped = skipped + VALUES(skipped), occurrence = GREATEST(occurrence, VALUES(occurrence)),
    started_at = GREATEST(started_at, VALUES(started_at));
