-- Writes records into the log of runs.
--
-- {rows}  the records
--
-- A start that comes late undoes no end.
INSERT INTO soloist_mutexes_runs (event, run, occurrence, host, pid, token, started_at, ended_at, result, error, format)
VALUES {rows}
ON DUPLICATE KEY UPDATE
    error = IF(VALUES(ended_at) IS NULL, error, VALUES(error)), result = COALESCE(VALUES(result), result),
    ended_at = COALESCE(VALUES(ended_at), ended_at);
