-- One of the rows that are written: a name, for an owner, for so many microseconds, with the token of the transaction, for the
-- run of an occurrence, in microseconds, or NULL.
({name}, {owner}, @soloist_token, {host}, {pid}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL {micros} MICROSECOND, FALSE, {micros}, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {occurrence} MICROSECOND, 'v1')
