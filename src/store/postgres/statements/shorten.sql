-- Lets each of these names end one term from now that would be held for longer: the server's clock was set back since it
-- was granted or renewed.
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
