-- One of the records that are written: times in microseconds, and NULL for what a run does not have.
(
    '{event}', '{run}', TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {occurrence} MICROSECOND, '{host}', {pid}, {token}, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {started} MICROSECOND, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {ended} MICROSECOND, {result}, {error}, 'v1'
)
