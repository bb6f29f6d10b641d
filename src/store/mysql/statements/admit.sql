-- Writes the rows of names that were found to be free: all of them or none.
--
-- rows:       the rows, in the order of their names
-- names:      their names
-- excluding:  names of which none may be held, or NULL
-- owners:     the owners of the rows
-- looked:     the server's time of the look that came before, in microseconds
-- until:      the server's time of the call's deadline, in microseconds
--
-- Returns, behind the commit, the number of rows that were written, and their token. No row is written if another owner
-- was granted one of these names in between; or if a name has a row of its owner already, released or not, because this
-- is a late copy. A query counts the rows, because a setting of the client decides which rows the server counts as
-- affected.
--
-- The first error ends these statements, before the commit.
--
-- The token of all rows is higher than all tokens in the table, and not below the time.
SELECT GREATEST(COALESCE(MAX(token), 0) + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) INTO @soloist_token
FROM {mutexes};
START TRANSACTION;
-- The first assignment decides whether a row is taken over; the others see its result. A row of the same owner is not
-- taken over.
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
-- If this transaction wrote a row and must not be committed, this makes it fail, by inserting rows that the primary key
-- refuses. These are a row that another owner was granted in between; or all rows, if the server's time is outside of
-- the window, or if a name that excludes them is held. The statement reads only these names, because it locks all rows
-- that it reads. A transaction that wrote no row commits nothing, and needs no other round trip.
--
-- The excluding names are read, and locked, after the rows were written, at any isolation level. Two admissions that
-- exclude each other would wait for each other: the server ends one of them, which then reads again. Locks for reading
-- exclude no other readers.
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
