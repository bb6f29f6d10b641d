-- Writes what was found to be free, all of it or nothing.
--
-- {rows}    the rows, in the order of their names
-- {names}   their names
-- {owners}  their owners
-- {token}   the token of all of them
-- {until}   the time of this server, in microseconds, from which on nobody waits for the answer
--
-- The first error ends it, before the commit. No count of rows is relied on: what it counts is the client's choice.
START TRANSACTION;
-- What is assigned first is what the other assignments see, so that they follow the owner and the token.
INSERT INTO soloist_mutexes (name, owner, token, host, pid, acquired_at, expires_at) VALUES {rows}
ON DUPLICATE KEY UPDATE
    owner = IF(
        (expires_at <= UTC_TIMESTAMP(6) OR owner = VALUES(owner)) AND token < VALUES(token), VALUES(owner), owner
    ),
    token = IF(owner = VALUES(owner) AND token < VALUES(token), VALUES(token), token),
    host = IF(owner = VALUES(owner), VALUES(host), host),
    pid = IF(owner = VALUES(owner), VALUES(pid), pid),
    acquired_at = IF(owner = VALUES(owner), VALUES(acquired_at), acquired_at),
    expires_at = IF(owner = VALUES(owner), VALUES(expires_at), expires_at);
-- A row that is not as it was asked for is there a second time, and that is an error, if somebody else was granted the
-- name in between, or if it is too late. Nothing but these names may be read: what is read is locked.
INSERT INTO soloist_mutexes SELECT * FROM soloist_mutexes FORCE INDEX (PRIMARY)
WHERE name IN ({names}) AND (
    owner NOT IN ({owners}) OR token <> {token}
    OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= {until}
);
COMMIT
