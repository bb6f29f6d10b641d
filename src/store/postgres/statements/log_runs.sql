-- Writes records into the log of runs.
--
-- rows:  the records, with a value for each of the columns below
--
-- If the record of a start arrives after the end of its run, the end stays.
INSERT INTO {runs} (event, run, occurrence, host, pid, token, started_at, ended_at, result, error, attempts, v1)
VALUES {rows}
ON CONFLICT (event, run) DO UPDATE SET
    ended_at = excluded.ended_at, result = excluded.result, error = excluded.error, attempts = excluded.attempts
WHERE excluded.ended_at IS NOT NULL;
