-- Lets what is ours end at another time, be that now or later.
--
-- ours:    the names with their owners, as conditions, in the order of the names
-- micros:  how many microseconds from now on it ends; none: it is released
-- asked:   the server's time before which it was not asked to end later, in microseconds
-- until:   the server's time up to which somebody waits for that
--
-- Returns the name and the owner of each that was ours and had not ended; and a row with no name and the server's time: if
-- that is outside of the window, nothing ends later. What had ended and is ours still is released, too: it would be held
-- again if the clock is set back.
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
