-- Looks at names, without locking or changing anything.
--
-- {which}  a condition for the names
--
-- Returns the time of this server in microseconds and the highest token of all; then a row for each name that has one:
-- name, owner, token, host, and since when and until when it is held, in microseconds; the token that was released last;
-- the token that the term is about, and the term in microseconds.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, coalesce(max(token), 0) FROM soloist_mutexes;
SELECT
    name, owner, token, host,
    (extract(epoch FROM acquired_at) * 1000000)::bigint, (extract(epoch FROM expires_at) * 1000000)::bigint,
    released_token, term_token, term_us
FROM soloist_mutexes WHERE {which};
