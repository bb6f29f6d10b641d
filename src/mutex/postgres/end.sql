-- Lets what is ours end at another time, be that now or later.
--
-- {ours}    the names with their owners, as conditions, in the order of the names
-- {micros}  how many microseconds from now on it ends; none: it is released
--
-- Returns the name and the owner of each that was ours and had not ended.
WITH ours AS (
    SELECT name FROM soloist_mutexes
    WHERE expires_at > clock_timestamp() AND released_token IS DISTINCT FROM token AND ({ours}) ORDER BY name FOR UPDATE
)
UPDATE soloist_mutexes AS held SET
    expires_at = clock_timestamp() + {micros} * interval '1 microsecond',
    released_token = CASE WHEN {micros} = 0 THEN token END, term_token = token, term_us = {micros}
FROM ours WHERE held.name = ours.name RETURNING held.name, held.owner;
