-- Writes the rows of names that were found to be free: all of them or none.
--
-- rows:       the rows, in the order of their names
-- names:      their names
-- excluding:  the names that must not be held, or NULL
-- owners:     the owners of the rows
-- looked:     the server's time when the rows were read, in microseconds
-- until:      the server's time at the deadline of the call, in microseconds
--
-- Returns, after the commit, the number of written rows, and their token. No row is written if another owner was
-- granted one of these names since the rows were read. No row is written, either, if a name already has a row with the
-- owner of this request, released or not: then this request is a late copy. A query counts the rows, because the
-- server's own count of affected rows depends on a setting of the client.
--
-- If a statement fails, the statements after it are not run, so that nothing is committed.
--
-- The token of all rows is higher than all tokens in the table, and at least the server's time in microseconds.
SELECT GREATEST(COALESCE(MAX(token), 0) + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) INTO @soloist_token
FROM {mutexes};
START TRANSACTION;
-- The first assignment decides whether a row is replaced; the others use its result. A row that has the owner of the
-- request already is not replaced.
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
-- If this transaction wrote a row but must not be committed, the next statement makes the transaction fail. The
-- statement inserts rows that exist already, which the primary key refuses: the rows that another owner was granted
-- since the read. It inserts all rows if the server's time is outside of the window, or if an excluding name is held.
-- The statement reads only these names, because it locks all rows that it reads. If the transaction wrote no row, the
-- statement inserts nothing, and the commit changes nothing.
--
-- The excluding names are read, and locked, after the rows were written, at any isolation level. Two admissions that
-- exclude each other then wait for each other. The server ends one of them, and that admission reads again. These locks
-- do not exclude other readers.
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
