-- Adds to the number of an event's occurrences that were skipped for one reason.
--
-- event:   the name of the event
-- run:     the reason, in place of the id of a run
-- latest:  the latest of the skipped occurrences, in microseconds
-- count:   the number to add
INSERT INTO {runs} AS known (event, run, occurrence, host, pid, started_at, skipped, v1)
SELECT '{event}', '{run}', latest, '', 0, latest, {count}, true
FROM (SELECT 'epoch'::timestamptz + {latest} * interval '1 microsecond' AS latest) AS skips
ON CONFLICT (event, run) DO UPDATE SET
    skipped = known.skipped + excluded.skipped, occurrence = greatest(known.occurrence, excluded.occurrence),
    started_at = greatest(known.started_at, excluded.started_at);
