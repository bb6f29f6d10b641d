-- The table of the mutexes: a row for each lease and each claim. The names are plain ASCII, compared byte by byte.
-- The column `v1` says its format: a program refuses a table without it.
CREATE TABLE IF NOT EXISTS soloist_mutexes (
    name text COLLATE "C" PRIMARY KEY,
    -- Who acquired it: a process and which of its acquisitions.
    owner text NOT NULL,
    -- The fencing token.
    token bigint NOT NULL,
    -- Its host and, if known, instance=, app= and the reason, with %XX for odd bytes.
    host text NOT NULL,
    pid bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    -- It is held until then, by the clock of the server, unless it was released.
    expires_at timestamptz NOT NULL,
    -- The row is free, whatever expires_at says.
    released boolean NOT NULL,
    -- The term of the last grant or renewal, in microseconds.
    term_us bigint NOT NULL,
    -- The occurrence whose run holds it, or waits in it.
    occurrence timestamptz,
    -- The format of this table.
    v1 boolean NOT NULL DEFAULT true
);
CREATE INDEX IF NOT EXISTS soloist_mutexes_expires_at ON soloist_mutexes (expires_at);
CREATE INDEX IF NOT EXISTS soloist_mutexes_token ON soloist_mutexes (token);
-- The log of runs, for schedules that keep one: a row for each run. Texts are plain ASCII, with %XX for each other byte.
CREATE TABLE IF NOT EXISTS soloist_mutexes_runs (
    event text COLLATE "C" NOT NULL,
    -- The owner of its lease, if it had one.
    run text COLLATE "C" NOT NULL,
    -- Times are by the clock of the host.
    occurrence timestamptz NOT NULL,
    -- And instance=, if known, and (backfill) of a run that a backfill started.
    host text NOT NULL,
    pid bigint NOT NULL,
    -- The fencing token.
    token bigint,
    started_at timestamptz NOT NULL,
    -- NULL: it is running, or its process was killed.
    ended_at timestamptz,
    -- succeeded, failed, timed_out, ...
    result text,
    error text,
    -- How often its task was started.
    attempts bigint NOT NULL DEFAULT 1,
    -- Later runs have higher ones, whatever the clocks of their hosts say.
    number bigint GENERATED ALWAYS AS IDENTITY,
    -- In the row of a reason, which is no run: how many occurrences were skipped.
    skipped bigint,
    -- The format of this table.
    v1 boolean NOT NULL DEFAULT true,
    PRIMARY KEY (event, run)
);
