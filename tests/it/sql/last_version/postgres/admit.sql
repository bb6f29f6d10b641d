-- Writes what was found to be free, all of it or nothing.
--
-- {rows}    the rows, in the order of their names
-- {names}   their names
-- {owners}  their owners
-- {token}   the token of all of them
-- {until}   the time of this server, in microseconds, from which on nobody waits for the answer
--
-- A server that is sent several statements at once carries out all of them or none.
INSERT INTO soloist_mutexes AS held (name, owner, token, host, pid, acquired_at, expires_at) VALUES {rows}
ON CONFLICT (name) DO UPDATE SET
    owner = excluded.owner, token = excluded.token, host = excluded.host, pid = excluded.pid,
    acquired_at = excluded.acquired_at, expires_at = excluded.expires_at
WHERE (held.expires_at <= clock_timestamp() OR held.owner = excluded.owner) AND held.token < excluded.token;
-- A row that is not as it was asked for is there a second time, and that is an error, if somebody else was granted the
-- name in between, or if it is too late.
INSERT INTO soloist_mutexes SELECT * FROM soloist_mutexes
WHERE name IN ({names}) AND (
    owner NOT IN ({owners}) OR token <> {token} OR extract(epoch FROM clock_timestamp()) * 1000000 >= {until}
);
