-- Lets each of these names end one term from now that would be held for longer: the server's clock was set back since it
-- was granted or renewed.
--
-- {names}  the names
--
-- What an earlier version granted says nothing of its term, and stays as it is.
UPDATE soloist_mutexes FORCE INDEX (PRIMARY) SET expires_at = UTC_TIMESTAMP(6) + INTERVAL term_us MICROSECOND
WHERE name IN ({names}) AND term_token = token AND NOT (released_token <=> token)
    AND expires_at > UTC_TIMESTAMP(6) + INTERVAL term_us MICROSECOND
