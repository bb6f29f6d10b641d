-- The table of the mutexes: a row for each lease and each claim. The names are plain ASCII, compared byte by byte.
CREATE TABLE IF NOT EXISTS soloist_mutexes (
    name VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
        COMMENT 'who acquired it: a process and which of its acquisitions',
    token BIGINT NOT NULL COMMENT 'the fencing token',
    host VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    pid BIGINT NOT NULL,
    acquired_at DATETIME(6) NOT NULL COMMENT 'UTC',
    expires_at DATETIME(6) NOT NULL COMMENT 'UTC, by the clock of the server: it is held until then',
    PRIMARY KEY (name),
    KEY soloist_mutexes_expires_at (expires_at),
    KEY soloist_mutexes_token (token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
