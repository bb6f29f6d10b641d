-- Writes records into the log of runs.
--
-- rows:  the records, with a value for each of the columns below
--
-- If the record of a start arrives after the end of its run, the end stays.
INSERT INTO {runs} (event, run, occurrence, host, pid, token, started_at, ended_at, result, error, attempts, v1)
VALUES {rows}
ON DUPLICATE KEY UPDATE
    attempts = IF(VALUES(ended_at) IS NULL, attempts, VALUES(attempts)),
    error = IF(VALUES(ended_at) IS NULL, error, VALUES(error)), result = COALESCE(VALUES(result), result),
    ended_at = COALESCE(VALUES(ended_at), ended_at);
