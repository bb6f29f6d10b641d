-- Writes records into the log of runs.
--
-- rows:  the records, with a value for each of the columns below
--
-- A record of a start that arrives after the end of its run does not undo the end.
INSERT INTO {runs} (event, run, occurrence, host, pid, token, started_at, ended_at, result, error, attempts, v1)
VALUES {rows}
ON CONFLICT (event, run) DO UPDATE SET
    ended_at = excluded.ended_at, result = excluded.result, error = excluded.error, attempts = excluded.attempts
WHERE excluded.ended_at IS NOT NULL;
