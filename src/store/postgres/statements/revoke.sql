-- Releases one name, if this owner holds it, and revokes the owner: a late copy of the owner's admission is granted
-- nothing.
--
-- name:   the name
-- owner:  its owner
--
-- A transaction of this owner may still be at its commit after its client has gone, because a commit can wait for a
-- replica. Until this commit is over, no other transaction sees the new rows, but an insert of one of their names waits
-- for the commit. So this statement is an insert. If the name has no row, the insert leaves a free row.
INSERT INTO {mutexes} AS held (name, owner, token, host, pid, acquired_at, expires_at, released, term_us, v1)
VALUES ('{name}', '{owner}', 0, '', 0, clock_timestamp(), clock_timestamp(), true, 0, true)
ON CONFLICT (name) DO UPDATE SET expires_at = least(held.expires_at, clock_timestamp()), released = true
WHERE held.owner = excluded.owner AND NOT held.released;
