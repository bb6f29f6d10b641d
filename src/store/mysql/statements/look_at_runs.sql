-- Reads the log of the runs of some events.
--
-- events:  the names of the events
--
-- Returns all columns, with times in microseconds.
SELECT
    event, run, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurrence), host, pid, token,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at), result, error, attempts, number, skipped
FROM {runs} WHERE v1 AND event IN ({events})
