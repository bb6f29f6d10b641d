-- The table of mutexes: a row for each lease, each claim and each marker. Names are plain ASCII, and are compared byte
-- by byte. The column `v1` marks the format of this table: a program refuses a table without this column.
CREATE TABLE IF NOT EXISTS soloist_mutexes (
    name VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
        COMMENT 'the id of one acquisition by one process',
    token BIGINT NOT NULL COMMENT 'the fencing token',
    host VARCHAR(3000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
        COMMENT 'the host of the owner and, if known, instance=, app=, the reason and timetable=, with %XX for special bytes',
    pid BIGINT NOT NULL,
    acquired_at DATETIME(6) NOT NULL COMMENT 'UTC',
    expires_at DATETIME(6) NOT NULL COMMENT 'UTC, by the clock of the server: the name is held until then, unless it was released',
    released BOOLEAN NOT NULL COMMENT 'if true, the name is free, even if expires_at is later',
    term_us BIGINT NOT NULL COMMENT 'the term of the last grant or renewal, in microseconds',
    occurrence DATETIME(6) NULL COMMENT 'UTC: the occurrence whose run holds the name, or that waits in a queue under it',
    v1 BOOLEAN NOT NULL DEFAULT TRUE COMMENT 'the format of this table',
    PRIMARY KEY (name),
    KEY soloist_mutexes_expires_at (expires_at),
    KEY soloist_mutexes_token (token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
-- The log of runs, for schedules that keep a log: a row for each run. Texts are plain ASCII, with %XX for each other byte.
CREATE TABLE IF NOT EXISTS soloist_mutexes_runs (
    event VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    run VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'the id of the run: the owner of its lease, if it had one',
    occurrence DATETIME(6) NOT NULL COMMENT 'UTC, as all times in this table, and by the clock of the host',
    host VARCHAR(2000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'the host, and instance= if known, and (backfill) for a run of a backfill',
    pid BIGINT NOT NULL,
    token BIGINT NULL COMMENT 'the fencing token',
    started_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NULL COMMENT 'NULL if the run is running, or if its process was killed',
    result VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'succeeded, failed, timed_out, ...',
    error TEXT CHARACTER SET ascii COLLATE ascii_bin NULL,
    attempts BIGINT NOT NULL DEFAULT 1 COMMENT 'the number of times that the task was started',
    number BIGINT NOT NULL AUTO_INCREMENT COMMENT 'later runs have higher numbers, even if the clocks of their hosts differ',
    skipped BIGINT NULL COMMENT 'the number of skipped occurrences, if the row is for a reason of skips and not for a run',
    v1 BOOLEAN NOT NULL DEFAULT TRUE COMMENT 'the format of this table',
    PRIMARY KEY (event, run),
    KEY (number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
