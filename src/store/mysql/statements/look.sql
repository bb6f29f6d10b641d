-- Looks at names, without locking or changing anything.
--
-- {which}  a condition for the names
--
-- Returns the time of this server in microseconds and the highest token of all; then a row for each name that has one:
-- name, owner, token, host, and since when and until when it is held, in microseconds; the token that was released last;
-- the token that the term is about, and the term in microseconds.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), COALESCE(MAX(token), 0) FROM soloist_mutexes;
SELECT
    name, owner, token, host,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at),
    released_token, term_token, term_us
FROM soloist_mutexes WHERE {which}
