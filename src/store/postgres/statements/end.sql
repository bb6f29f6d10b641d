-- Moves the end of leases and claims that these owners hold: to now, or to a later time.
--
-- ours:    the names with their owners, as conditions, in the order of the names
-- micros:  how many microseconds from now they end; 0: they are released
-- asked:   the server's time before which it was not asked to end later, in microseconds
-- until:   the server's time of the call's deadline, in microseconds
--
-- Returns the name and the owner of each row that was held by its owner and had not ended. Then returns a row without a
-- name, but with the server's time: if this is outside of the window, no end was moved to later. A row that has ended,
-- but is still its owner's, is released, too: the name would be held again if the clock was set back.
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
