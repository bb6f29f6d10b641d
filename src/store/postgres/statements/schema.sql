-- The table of mutexes: a row for each lease, each claim and each marker. Names are plain ASCII, and are compared byte
-- by byte. The column `v1` marks the format of this table: a program refuses a table without this column.
CREATE TABLE IF NOT EXISTS soloist_mutexes (
    name text COLLATE "C" PRIMARY KEY,
    -- The owner: the id of one acquisition by one process.
    owner text NOT NULL,
    -- The fencing token.
    token bigint NOT NULL,
    -- The owner's host and, if known, instance=, app=, the reason and timetable=, with %XX for special bytes.
    host text NOT NULL,
    pid bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    -- The name is held until this time, by the clock of the server, unless it was released.
    expires_at timestamptz NOT NULL,
    -- If true, the name is free, even if expires_at is later.
    released boolean NOT NULL,
    -- The term of the last grant or renewal, in microseconds.
    term_us bigint NOT NULL,
    -- The occurrence whose run holds the name, or that waits in a queue under this name.
    occurrence timestamptz,
    -- The format of this table.
    v1 boolean NOT NULL DEFAULT true
);
CREATE INDEX IF NOT EXISTS soloist_mutexes_expires_at ON soloist_mutexes (expires_at);
CREATE INDEX IF NOT EXISTS soloist_mutexes_token ON soloist_mutexes (token);
-- The log of runs, for schedules that keep a log: a row for each run. Texts are plain ASCII, with %XX for each other byte.
CREATE TABLE IF NOT EXISTS soloist_mutexes_runs (
    event text COLLATE "C" NOT NULL,
    -- The id of the run: the owner of its lease, if the run had a lease.
    run text COLLATE "C" NOT NULL,
    -- All times in this table are by the clock of the host.
    occurrence timestamptz NOT NULL,
    -- The host, and instance=, if known, and (backfill) for a run that a backfill started.
    host text NOT NULL,
    pid bigint NOT NULL,
    -- The fencing token.
    token bigint,
    started_at timestamptz NOT NULL,
    -- NULL if the run is running, or if its process was killed.
    ended_at timestamptz,
    -- succeeded, failed, timed_out, ...
    result text,
    error text,
    -- The number of times that the task was started.
    attempts bigint NOT NULL DEFAULT 1,
    -- Later runs have higher numbers, even if the clocks of their hosts differ.
    number bigint GENERATED ALWAYS AS IDENTITY,
    -- The number of skipped occurrences, if the row is for a reason of skips and not for a run.
    skipped bigint,
    -- The format of this table.
    v1 boolean NOT NULL DEFAULT true,
    PRIMARY KEY (event, run)
);
