-- Deletes runs from the log of an event, except runs whose records have an end.
--
-- KEYS[1]  the log
-- ARGV     the ids of the runs

for _, run in ipairs(ARGV) do
  local record = redis.call('HGET', KEYS[1], run)
  if record and not string.find(record, ' ended=', 1, true) then
    redis.call('HDEL', KEYS[1], run)
  end
end
