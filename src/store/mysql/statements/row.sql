-- One of the rows that are written: a name, for an owner, for so many microseconds.
('{name}', '{owner}', {token}, '{host}', {pid}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL {micros} MICROSECOND, {token}, {micros})
