-- Drops records from the log of an event's runs, except records that have an end.
--
-- KEYS[1]  the log
-- ARGV     the runs

for _, run in ipairs(ARGV) do
  local record = redis.call('HGET', KEYS[1], run)
  if record and not string.find(record, ' ended=', 1, true) then
    redis.call('HDEL', KEYS[1], run)
  end
end
