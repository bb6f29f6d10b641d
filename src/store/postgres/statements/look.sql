-- Reads names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row that has only the time of this server, in microseconds. Then returns a row for each name that has a row
-- in the table: name, owner, token and host; the times since when and until when the name is held, in microseconds; 1
-- if the name was released, or 0; the term in microseconds; and the occurrence in microseconds, or nothing. Two
-- statements cost the server half as much as one statement with a union.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
SELECT
    name, owner, token, host,
    (extract(epoch FROM acquired_at) * 1000000)::bigint, (extract(epoch FROM expires_at) * 1000000)::bigint,
    released::int, term_us, (extract(epoch FROM occurrence) * 1000000)::bigint
FROM {mutexes} WHERE v1 AND ({which});
