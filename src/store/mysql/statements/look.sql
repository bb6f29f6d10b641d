-- Reads names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with only the time of this server. Then returns a row for each name that is in the table: name, owner,
-- token, host, time of the grant, end, 1 if the name was released or else 0, term, and occurrence or NULL. All times
-- are in microseconds. Two statements cost the server half as much as one statement with a union.
--
-- A row that a person has changed may have a token below 0, or a time such as '0000-00-00', which has no number of
-- microseconds. Such a value must not fail the read, because all other names are read together with it. So such a time
-- is read as the first instant of 1970.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT
    name, owner, GREATEST(token, 0), host,
    COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), 0),
    COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at), 0),
    released <> 0, term_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', occurrence)
FROM {mutexes} WHERE v1 AND ({which})
