-- The table of the mutexes: a row for each lease and each claim. The names are plain ASCII, compared byte by byte.
CREATE TABLE IF NOT EXISTS soloist_mutexes (
    name text COLLATE "C" PRIMARY KEY,
    -- Who acquired it: a process and which of its acquisitions.
    owner text NOT NULL,
    -- The fencing token.
    token bigint NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    -- It is held until then, by the clock of the server.
    expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS soloist_mutexes_expires_at ON soloist_mutexes (expires_at);
CREATE INDEX IF NOT EXISTS soloist_mutexes_token ON soloist_mutexes (token);
