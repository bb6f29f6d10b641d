-- Deletes the rows that ended more than 90 seconds ago. No call lasts that long, so a late copy still finds its row.
-- The row with the highest token stays, because the next token is counted from it. Rows that another transaction has
-- locked stay, too.
--
-- index:  the beginning of the index's name; without this index, a server would read and lock all rows of a small table
-- batch:  the most rows to delete
SELECT COALESCE(MAX(token), 0) INTO @soloist_last FROM {mutexes};
DELETE ended FROM (
    SELECT name FROM {mutexes} FORCE INDEX ({index}_expires_at)
    WHERE v1 AND expires_at < UTC_TIMESTAMP(6) - INTERVAL 90 SECOND AND token < @soloist_last
    ORDER BY expires_at LIMIT {batch} FOR UPDATE SKIP LOCKED
) AS oldest STRAIGHT_JOIN {mutexes} AS ended FORCE INDEX (PRIMARY) ON ended.name = oldest.name;
SELECT ROW_COUNT();
