-- Adds to the counts of an event's skipped occurrences.
--
-- KEYS[1]  the log of the event's runs: `skipped:REASON` has the number, `latest:REASON` the latest skipped occurrence
-- ARGV     for each reason its name, the number to add, and the latest skipped occurrence, in microseconds

for at = 1, #ARGV, 3 do
  local reason, latest = ARGV[at], ARGV[at + 2]
  redis.call('HINCRBY', KEYS[1], 'skipped:' .. reason, ARGV[at + 1])
  local known = tonumber(redis.call('HGET', KEYS[1], 'latest:' .. reason) or '')
  if not known or known < tonumber(latest) then
    redis.call('HSET', KEYS[1], 'latest:' .. reason, latest)
  end
end
