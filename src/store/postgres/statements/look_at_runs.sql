-- Reads the log of the runs of some events.
--
-- events:  the names of the events
--
-- Returns all columns, with times in microseconds.
SELECT
    event, run, (extract(epoch FROM occurrence) * 1000000)::bigint, host, pid, token,
    (extract(epoch FROM started_at) * 1000000)::bigint, (extract(epoch FROM ended_at) * 1000000)::bigint, result, error, attempts, number, skipped
FROM {runs} WHERE v1 AND event IN ({events});
