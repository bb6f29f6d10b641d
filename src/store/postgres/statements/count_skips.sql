-- Adds to the numbers of occurrences that were skipped, one number for each reason.
--
-- rows:  the reasons and the numbers to add, with a value for each of the columns below
INSERT INTO {runs} AS known (event, run, occurrence, host, pid, started_at, skipped, v1)
VALUES {rows}
ON CONFLICT (event, run) DO UPDATE SET
    skipped = known.skipped + excluded.skipped, occurrence = greatest(known.occurrence, excluded.occurrence),
    started_at = greatest(known.started_at, excluded.started_at);
