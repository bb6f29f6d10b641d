-- Writes records into the log of runs.
--
-- {rows}  the records
--
-- A start that comes late undoes no end.
INSERT INTO soloist_mutexes_runs (event, run, occurrence, host, pid, token, started_at, ended_at, result, error, format)
VALUES {rows}
ON CONFLICT (event, run) DO UPDATE SET ended_at = excluded.ended_at, result = excluded.result, error = excluded.error
WHERE excluded.ended_at IS NOT NULL;
