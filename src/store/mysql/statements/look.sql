-- Looks at names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with the time of this server in microseconds alone; and one for each name that has a row: name, owner, token,
-- host, and since when and until when it is held, in microseconds; 1 if it was released, or 0; the term in microseconds; and the
-- occurrence, in microseconds, or nothing. Two statements cost the server half of what one with a union does.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT
    name, owner, token, host,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at),
    released, term_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurrence)
FROM {mutexes} WHERE v1 AND ({which})
