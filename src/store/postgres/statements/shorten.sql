-- Moves the end of these names to one term from now, if the names are to end later than that. If so, the server's clock
-- was set back after the last grant or renewal.
--
-- names:  the names
--
-- A term below 0 was not written by soloist, and counts as 0.
WITH longer AS (
    SELECT name FROM {mutexes}
    WHERE name IN ({names}) AND NOT released
        AND expires_at > clock_timestamp() + greatest(term_us, 0) * interval '1 microsecond'
    ORDER BY name FOR UPDATE
)
UPDATE {mutexes} AS held SET expires_at = clock_timestamp() + greatest(held.term_us, 0) * interval '1 microsecond'
FROM longer WHERE held.name = longer.name;
