-- Adds to the numbers of occurrences that were skipped, one number for each reason.
--
-- rows:  the reasons and the numbers to add, with a value for each of the columns below
INSERT INTO {runs} (event, run, occurrence, host, pid, started_at, skipped, v1)
VALUES {rows}
ON DUPLICATE KEY UPDATE
    skipped = skipped + VALUES(skipped), occurrence = GREATEST(occurrence, VALUES(occurrence)),
    started_at = GREATEST(started_at, VALUES(started_at));
