-- Reads names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with only the time of this server. Then returns a row for each name that is in the table: name, owner,
-- token, host, time of the grant, end, 1 if the name was released or else 0, term, and occurrence or NULL. All times
-- are in microseconds. Two statements cost the server half as much as one statement with a union.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT
    name, owner, token, host,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at),
    released, term_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurrence)
FROM {mutexes} WHERE v1 AND ({which})
