-- Reads names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with only the time of this server. Then returns a row for each name that is in the table: name, owner,
-- token, host, time of the grant, end, 1 if the name was released or else 0, term, and occurrence or NULL. All times
-- are in microseconds. Two statements cost the server half as much as one statement with a union.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
SELECT
    name, owner, token, host,
    (extract(epoch FROM acquired_at) * 1000000)::bigint, (extract(epoch FROM expires_at) * 1000000)::bigint,
    released::int, term_us, (extract(epoch FROM occurrence) * 1000000)::bigint
FROM {mutexes} WHERE v1 AND ({which});
