-- Lets what is ours end at another time, be that now or later.
--
-- ours:    the names with their owners, as conditions, in the order of the names
-- micros:  how many microseconds from now on it ends; none: it is released
-- asked:   the server's time before which it was not asked to end later, in microseconds
-- until:   the server's time up to which somebody waits for that
--
-- Returns the name and the owner of each that was ours and had not ended; and a row with no name and the server's time: if
-- that is outside of the window, nothing ends later. The time is read when the rows are locked: one that was read before may
-- be earlier than that at which somebody else has let them end. Whatever is read on the way is locked, so that nothing but
-- these names may be, however small the table is.
START TRANSACTION;
SELECT COUNT(*) INTO @soloist_locked FROM {mutexes} FORCE INDEX (PRIMARY) WHERE v1 AND ({ours}) FOR UPDATE;
SET @soloist_now = UTC_TIMESTAMP(6);
SET @soloist_micros = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', CAST(@soloist_now AS DATETIME(6)));
SELECT name, owner FROM {mutexes} FORCE INDEX (PRIMARY)
WHERE expires_at > CAST(@soloist_now AS DATETIME(6)) AND NOT released AND ({ours}) FOR UPDATE;
-- What had ended and is ours still is released, too: it would be held again if the clock is set back.
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
