-- Moves the end of leases and claims that these owners hold: to now, or to a later time.
--
-- ours:    the names with their owners, as conditions, in the order of the names
-- micros:  how many microseconds from now they end; 0: they are released
-- asked:   the server's time when the request was sent, in microseconds
-- until:   the server's time at the deadline of the call, in microseconds
--
-- Returns the name and the owner of each row that its owner still held. Then returns a row with an empty name and the
-- server's time. If this time is outside of the window, no end was moved to a later time.
--
-- If a row has ended by itself, but still has the owner of the request, a release marks the row as released, too.
-- Otherwise the name would be held again if the clock was set back.
WITH ours AS (
    SELECT name, expires_at > clock_timestamp() AS lasts FROM {mutexes}
    WHERE v1 AND NOT released AND ({ours}) ORDER BY name FOR UPDATE
), ended AS (
    UPDATE {mutexes} AS held SET
        expires_at = CASE WHEN {micros} = 0 THEN least(held.expires_at, clock_timestamp())
            ELSE clock_timestamp() + {micros} * interval '1 microsecond' END,
        released = ({micros} = 0), term_us = {micros}
    FROM ours WHERE held.name = ours.name AND (
        {micros} = 0 OR lasts AND extract(epoch FROM clock_timestamp()) * 1000000 BETWEEN {asked} AND {until}
    ) RETURNING held.name, held.owner, lasts
)
SELECT name, owner FROM ended WHERE lasts;
SELECT '', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text;
