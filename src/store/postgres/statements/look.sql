-- Looks at names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with the time of this server in microseconds alone; and one for each name that has a row: name, owner, token,
-- host, and since when and until when it is held, in microseconds; 1 if it was released, or 0; the term in microseconds; and the
-- occurrence, in microseconds, or nothing. Two statements cost the server half of what one with a union does.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
SELECT
    name, owner, token, host,
    (extract(epoch FROM acquired_at) * 1000000)::bigint, (extract(epoch FROM expires_at) * 1000000)::bigint,
    released::int, term_us, (extract(epoch FROM occurrence) * 1000000)::bigint
FROM {mutexes} WHERE v1 AND ({which});
