-- Looks at names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with the time of this server in microseconds, and no owner; and one for each name that has a row: name,
-- owner, token, host, and since when and until when it is held, in microseconds; 1 if it was released, or 0; the term
-- in microseconds; and the occurrence, in microseconds, or nothing.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
UNION ALL SELECT
    name, owner, token, host,
    (extract(epoch FROM acquired_at) * 1000000)::bigint, (extract(epoch FROM expires_at) * 1000000)::bigint,
    released::int, term_us, (extract(epoch FROM occurrence) * 1000000)::bigint
FROM {mutexes} WHERE v1 AND ({which})
