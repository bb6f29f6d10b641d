-- Reads names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row that has only the time of this server, in microseconds. Then returns a row for each name that has a row
-- in the table: name, owner, token and host; the times since when and until when the name is held, in microseconds; 1
-- if the name was released, or 0; the term in microseconds; and the occurrence in microseconds, or nothing. Two
-- statements cost the server half as much as one statement with a union.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT
    name, owner, token, host,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at),
    released, term_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurrence)
FROM {mutexes} WHERE v1 AND ({which})
