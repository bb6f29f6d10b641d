-- Writes the rows of names that were found to be free: all of them or none.
--
-- rows:       the rows, in the order of their names
-- names:      their names
-- excluding:  the names that must not be held, or NULL
-- owners:     the owners of the rows
-- looked:     the server's time when the rows were read, in microseconds
-- until:      the server's time at the deadline of the call, in microseconds
--
-- Returns, as the last row, the number of written rows, and their token. No row is written if another owner was granted
-- one of these names, or an excluding name, since the rows were read. No row is written, either, if a name already has
-- a row with the owner of this request, released or not: then this request is a late copy. No row is written if the
-- server's time is outside of the window.
--
-- The statements of this file are sent in one request. The server runs them as one transaction: all of them or none.
--
-- The keys of all locks depend on a secret in the table, so that a user without the right to read the table can't
-- compute the keys. The first of all admissions writes the secret.
INSERT INTO {mutexes} (name, owner, token, host, pid, acquired_at, expires_at, released, term_us)
SELECT 'advisory-key', md5(concat(random(), clock_timestamp(), random())), 0, '', 0, 'epoch', 'epoch', true, 0
WHERE NOT EXISTS (SELECT FROM {mutexes} WHERE name = 'advisory-key')
ON CONFLICT (name) DO NOTHING;
-- A setting has the secret. It lasts for this transaction.
SELECT set_config('soloist.key', owner, true) FROM {mutexes} WHERE name = 'advisory-key';
-- Admissions share one lock. An admission with more than 50 names does not share this lock, and takes no other, because
-- a server has memory for about 64 locks in each transaction. So this admission waits for all others, and all others
-- wait for it.
SELECT CASE
    WHEN count(name) > 50
    THEN pg_advisory_xact_lock(hashtextextended(current_setting('soloist.key'), 0))::text
    ELSE pg_advisory_xact_lock_shared(hashtextextended(current_setting('soloist.key'), 0))::text
END
FROM (SELECT DISTINCT name FROM unnest(ARRAY[{names}, {excluding}]) AS name WHERE name IS NOT NULL) AS names;
-- Admissions of one name queue here, so that each sees the rows that the admission before it has committed.
--
-- For the names of the rows, the queue only keeps errors out of the server's log. For excluding names, the queue is
-- needed: an admission of the excluding name must wait for this admission, or this admission must wait for that one.
-- All admissions that an excluding name can refuse share one place. The locks are taken in the order of their keys, so
-- that no two admissions wait for each other.
SELECT CASE WHEN asked THEN pg_advisory_xact_lock(key)::text ELSE pg_advisory_xact_lock_shared(key)::text END
FROM (
    SELECT hashtextextended(current_setting('soloist.key') || name, 0) AS key, bool_or(asked) AS asked, count(*) OVER () AS keys
    FROM (
        SELECT name, true AS asked FROM unnest(ARRAY[{names}]) AS name
        UNION ALL SELECT name, false FROM unnest(ARRAY[{excluding}]::text[]) AS name WHERE name IS NOT NULL
    ) AS names
    GROUP BY key
) AS queue WHERE keys <= 50 ORDER BY key;
-- The token of all rows is higher than all tokens in the table, and at least the server's time in microseconds.
SELECT set_config('soloist.token', greatest(
    (SELECT max(token) FROM {mutexes}) + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
)::text, true);
WITH written AS (
    INSERT INTO {mutexes} AS held (name, owner, token, host, pid, acquired_at, expires_at, released, term_us, occurrence)
    SELECT * FROM (VALUES {rows}) AS asked
    WHERE extract(epoch FROM clock_timestamp()) * 1000000 BETWEEN {looked} AND {until} AND NOT EXISTS (
        SELECT FROM {mutexes}
        WHERE name IN ({names}) AND (owner IN ({owners}) OR NOT released AND expires_at > clock_timestamp())
    ) AND NOT EXISTS (
        SELECT FROM {mutexes}
        WHERE name IN ({excluding}) AND NOT released AND expires_at > clock_timestamp()
    )
    ON CONFLICT (name) DO UPDATE SET
        owner = excluded.owner, token = excluded.token, host = excluded.host, pid = excluded.pid,
        acquired_at = excluded.acquired_at, expires_at = excluded.expires_at,
        released = excluded.released, term_us = excluded.term_us, occurrence = excluded.occurrence
    WHERE (held.released OR held.expires_at <= clock_timestamp())
        AND held.owner <> excluded.owner AND held.token < excluded.token
    RETURNING 1
)
SELECT count(*), current_setting('soloist.token') FROM written;
-- If this transaction wrote a row but must not be committed, the next statement makes the transaction fail. The
-- statement inserts rows that exist already, which the primary key refuses. It inserts a row that another owner has
-- after all, because that owner did not queue, or renewed at the last moment. It inserts all rows if the window has
-- passed.
INSERT INTO {mutexes} SELECT * FROM {mutexes}
WHERE name IN ({names}) AND (
    owner NOT IN ({owners}) OR token <> current_setting('soloist.token')::bigint
    OR extract(epoch FROM clock_timestamp()) * 1000000 NOT BETWEEN {looked} AND {until}
) AND EXISTS (SELECT FROM {mutexes} WHERE name IN ({names}) AND owner IN ({owners}) AND token = current_setting('soloist.token')::bigint);
