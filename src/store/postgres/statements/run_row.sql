-- One of the records that are written: times in microseconds, and NULL for what a run does not have.
(
    '{event}', '{run}', 'epoch'::timestamptz + {occurrence} * interval '1 microsecond', '{host}', {pid}, {token}, 'epoch'::timestamptz + {started} * interval '1 microsecond', 'epoch'::timestamptz + {ended} * interval '1 microsecond', {result}, {error}, 'v1'
)
