-- Deletes what has ended 90 seconds ago, but for the row with the highest token, after which the next one is counted: no call
-- lasts that long, so that a late copy finds its row. What another transaction has locked is left.
--
-- index:  the index of the ends: a server would look at, and lock, all of a small table
-- batch:  how many rows are deleted at most
SELECT COALESCE(MAX(token), 0) INTO @soloist_last FROM {mutexes};
DELETE ended FROM (
    SELECT name FROM {mutexes} FORCE INDEX ({index})
    WHERE v1 AND expires_at < UTC_TIMESTAMP(6) - INTERVAL 90 SECOND AND token < @soloist_last
    ORDER BY expires_at LIMIT {batch} FOR UPDATE SKIP LOCKED
) AS oldest STRAIGHT_JOIN {mutexes} AS ended FORCE INDEX (PRIMARY) ON ended.name = oldest.name;
SELECT ROW_COUNT();
