-- One of the rows that are written: a name, for an owner, for so many microseconds, with the token of the transaction, for the
-- run of an occurrence, in microseconds, or NULL.
({name}, {owner}, current_setting('soloist.token')::bigint, {host}, {pid}, clock_timestamp(), clock_timestamp() + {micros} * interval '1 microsecond', false, {micros}, 'epoch'::timestamptz + {occurrence} * interval '1 microsecond', 'v1')
