-- Moves the end of leases and claims that these owners hold: to now, or to a later time.
--
-- ours:    the names with their owners, as conditions, in the order of the names
-- micros:  how many microseconds from now they end; 0: they are released
-- asked:   the server's time when the request was sent, in microseconds
-- until:   the server's time at the deadline of the call, in microseconds
--
-- Returns the name and the owner of each row that its owner still held. Then returns a row with an empty name and the
-- server's time. If this time is outside of the window, no end was moved to a later time. The time is read after the
-- rows were locked, because the wait for the locks takes time. The statements read only these names, because they lock
-- all rows that they read.
START TRANSACTION;
SELECT COUNT(*) INTO @soloist_locked FROM {mutexes} FORCE INDEX (PRIMARY) WHERE v1 AND ({ours}) FOR UPDATE;
SET @soloist_now = UTC_TIMESTAMP(6);
SET @soloist_micros = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', CAST(@soloist_now AS DATETIME(6)));
SELECT name, owner FROM {mutexes} FORCE INDEX (PRIMARY)
WHERE expires_at > CAST(@soloist_now AS DATETIME(6)) AND NOT released AND ({ours}) FOR UPDATE;
-- If a row has ended by itself, but still has the owner of the request, a release marks the row as released, too.
-- Otherwise the name would be held again if the clock was set back.
UPDATE {mutexes} FORCE INDEX (PRIMARY)
SET expires_at = IF(
        {micros} = 0, LEAST(expires_at, CAST(@soloist_now AS DATETIME(6))),
        CAST(@soloist_now AS DATETIME(6)) + INTERVAL {micros} MICROSECOND
    ),
    released = ({micros} = 0), term_us = {micros}
WHERE ({micros} = 0 OR expires_at > CAST(@soloist_now AS DATETIME(6)) AND @soloist_micros BETWEEN {asked} AND {until})
    AND NOT released AND ({ours});
SELECT '', @soloist_micros;
COMMIT
