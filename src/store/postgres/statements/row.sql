-- One of the rows that are written: a name, for an owner, for so many microseconds.
('{name}', '{owner}', {token}, '{host}', {pid}, clock_timestamp(), clock_timestamp() + {micros} * interval '1 microsecond', {token}, {micros})
