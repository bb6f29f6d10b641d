-- Reads the log of the runs of some events.
--
-- events:  the names of the events
--
-- Returns all columns, with times in microseconds. Times outside of the years 1970 to 9999, such as `infinity`, are moved
-- to the nearest of these years, so that they don't fail the read.
SELECT
    event, run, (extract(epoch FROM least(greatest(occurrence, 'epoch'), '9999-12-31')) * 1000000)::bigint, host, pid, token,
    (extract(epoch FROM least(greatest(started_at, 'epoch'), '9999-12-31')) * 1000000)::bigint,
    CASE WHEN ended_at IS NOT NULL
        THEN (extract(epoch FROM least(greatest(ended_at, 'epoch'), '9999-12-31')) * 1000000)::bigint END,
    result, error, attempts, number, skipped
FROM {runs} WHERE v1 AND event IN ({events});
