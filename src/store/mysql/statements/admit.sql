-- Writes what was found to be free, all of it or nothing.
--
-- rows:       the rows, in the order of their names
-- names:      their names
-- excluding:  names of which none may be held, or NULL
-- owners:     the owners of the rows
-- looked:     the server's time of the look that came before, in microseconds
-- until:      the server's time up to which somebody waits for the answer, in microseconds
--
-- Returns how many rows are ours, and their token, behind the commit: no rows if somebody else was granted them in between, or
-- if they have rows of their owners, released or not, because this is a late copy.
-- They are counted by a query: what the server counts as affected rows is the client's choice.
--
-- The first error ends it, before the commit.
--
-- The token of all rows is after the highest of all, and not before the time.
SELECT GREATEST(COALESCE(MAX(token), 0) + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) INTO @soloist_token
FROM {mutexes};
START TRANSACTION;
-- Whether a row is taken over is decided before the first assignment, which the others see. A row of the same owner is not.
INSERT INTO {mutexes} (name, owner, token, host, pid, acquired_at, expires_at, released, term_us, occurrence) VALUES {rows}
ON DUPLICATE KEY UPDATE
    owner = IF(
        @soloist_takes := (released OR expires_at <= UTC_TIMESTAMP(6))
            AND owner <> VALUES(owner) AND token < VALUES(token),
        VALUES(owner), owner
    ),
    token = IF(@soloist_takes, VALUES(token), token),
    host = IF(@soloist_takes, VALUES(host), host),
    pid = IF(@soloist_takes, VALUES(pid), pid),
    acquired_at = IF(@soloist_takes, VALUES(acquired_at), acquired_at),
    expires_at = IF(@soloist_takes, VALUES(expires_at), expires_at),
    released = IF(@soloist_takes, VALUES(released), released),
    term_us = IF(@soloist_takes, VALUES(term_us), term_us),
    occurrence = IF(@soloist_takes, VALUES(occurrence), occurrence);
-- Makes a transaction fail that wrote something and must not be committed, by inserting rows that the primary key refuses:
-- a row that somebody else was granted in between; or all rows, if the server's time is outside of the window, because it
-- is too late or the clock was set back, or if somebody has taken a name that excludes them. Nothing but these names may be
-- read: what is read is locked. Whoever wrote nothing commits nothing, and lets the next one have the rows without another
-- round trip.
--
-- The names that exclude the rows are read when the rows are written, and locked, whatever the isolation level is. Of two
-- that exclude each other, each would wait for the other: the server ends one, which looks again. Who only reads a name
-- waits for nobody else who does.
INSERT INTO {mutexes} SELECT * FROM {mutexes} FORCE INDEX (PRIMARY)
WHERE name IN ({names}) AND (
    owner NOT IN ({owners}) OR token <> @soloist_token
    OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) NOT BETWEEN {looked} AND {until}
    OR EXISTS (
        SELECT 1 FROM {mutexes} AS excluding FORCE INDEX (PRIMARY)
        WHERE name IN ({excluding}) AND NOT released AND expires_at > UTC_TIMESTAMP(6)
            AND NOT (owner IN ({owners}) AND token = @soloist_token)
        LOCK IN SHARE MODE
    )
) AND EXISTS (
    SELECT 1 FROM {mutexes} AS ours FORCE INDEX (PRIMARY)
    WHERE name IN ({names}) AND owner IN ({owners}) AND token = @soloist_token
);
SELECT COUNT(*) INTO @soloist_written FROM {mutexes} FORCE INDEX (PRIMARY)
WHERE name IN ({names}) AND owner IN ({owners}) AND token = @soloist_token;
COMMIT;
SELECT @soloist_written, @soloist_token;
