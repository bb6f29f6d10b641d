-- Reads names, without locking or changing anything.
--
-- which:  a condition for the names
--
-- Returns a row with only the time of this server. Then returns a row for each name that is in the table: name, owner,
-- token, host, time of the grant, end, 1 if the name was released or else 0, term, and occurrence or NULL. All times
-- are in microseconds. Two statements cost the server half as much as one statement with a union.
--
-- A row that a person has changed may have a token below 0, or a time such as `infinity`. Such a value must not fail the
-- read, because all other names are read together with it. So times outside of the years 1970 to 9999 are moved to the
-- nearest of these years.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
SELECT
    name, owner, greatest(token, 0), host,
    (extract(epoch FROM least(greatest(acquired_at, 'epoch'), '9999-12-31')) * 1000000)::bigint,
    (extract(epoch FROM least(greatest(expires_at, 'epoch'), '9999-12-31')) * 1000000)::bigint,
    released::int, term_us,
    CASE WHEN occurrence IS NOT NULL
        THEN (extract(epoch FROM least(greatest(occurrence, 'epoch'), '9999-12-31')) * 1000000)::bigint END
FROM {mutexes} WHERE v1 AND ({which});
