-- Writes records into the log of an event's runs, and numbers the runs as they arrive.
--
-- KEYS[1]  the log, a hash: for each run the format, its number and its record; and the last number at `number`
-- ARGV     for each record the id of its run, and its text
--
-- The record of an end replaces the record of the start, and keeps its number. The record of a start replaces no
-- record.

for at = 1, #ARGV, 2 do
  local run, record = ARGV[at], ARGV[at + 1]
  local found = redis.call('HGET', KEYS[1], run)
  local number = found and string.match(found, '^v1 number=(%d+) ')
  if not number or string.find(record, ' ended=', 1, true) then
    number = number or redis.call('HINCRBY', KEYS[1], 'number', 1)
    redis.call('HSET', KEYS[1], run, 'v1 number=' .. number .. ' ' .. record)
  end
end
