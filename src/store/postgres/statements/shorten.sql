-- Moves the end of these names to one term from now, if the names are to end later than that. If so, the server's clock
-- was set back after the last grant or renewal.
--
-- names:  the names
WITH longer AS (
    SELECT name FROM {mutexes}
    WHERE name IN ({names}) AND NOT released
        AND expires_at > clock_timestamp() + term_us * interval '1 microsecond'
    ORDER BY name FOR UPDATE
)
UPDATE {mutexes} AS held SET expires_at = clock_timestamp() + held.term_us * interval '1 microsecond'
FROM longer WHERE held.name = longer.name;
