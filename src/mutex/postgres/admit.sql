-- Writes what was found to be free, all of it or nothing.
--
-- {rows}    the rows, in the order of their names
-- {names}   their names
-- {owners}  their owners
-- {token}   the token of all of them
-- {looked}  the server's time of the look that came before, in microseconds
-- {until}   the server's time up to which somebody waits for the answer, in microseconds
--
-- A server that is sent several statements at once carries out all of them or none.
INSERT INTO soloist_mutexes AS held (name, owner, token, host, pid, acquired_at, expires_at, term_token, term_us)
VALUES {rows}
ON CONFLICT (name) DO UPDATE SET
    owner = excluded.owner, token = excluded.token, host = excluded.host, pid = excluded.pid,
    acquired_at = excluded.acquired_at, expires_at = excluded.expires_at,
    term_token = excluded.term_token, term_us = excluded.term_us
WHERE (
    held.released_token = held.token OR held.expires_at <= clock_timestamp() OR held.owner = excluded.owner
) AND held.token < excluded.token;
-- Makes the transaction fail if it must not be committed, by inserting rows that the primary key refuses: a row that
-- somebody else was granted in between; or all rows, if the server's time is outside of the window, because it is too
-- late or the clock was set back.
INSERT INTO soloist_mutexes SELECT * FROM soloist_mutexes
WHERE name IN ({names}) AND (
    owner NOT IN ({owners}) OR token <> {token}
    OR extract(epoch FROM clock_timestamp()) * 1000000 NOT BETWEEN {looked} AND {until}
);
