-- Lets leases end one term from now, each if it is still its owner's.
--
-- KEYS     the leases
-- ARGV[1]  the time of this server, in microseconds with 16 digits, from which on nobody waits for the answer
-- ARGV[2]  the term in milliseconds
-- ARGV     behind it their owners, each with a space, in the same order
--
-- Returns the numbers, from 1 on, of those that were somebody else's or nobody's; 'late' if nobody waits any more:
-- nothing was done, because what was shortened meanwhile must stay so.

local time = redis.call('TIME')
if string.sub('0000000000' .. time[1], -10) .. string.sub('000000' .. time[2], -6) >= ARGV[1] then
  return 'late'
end
local found = redis.call('MGET', unpack(KEYS))
local answer = {}
for at, key in ipairs(KEYS) do
  local ours = found[at] and string.find(found[at], ARGV[at + 2], 1, true) == 1
  if not ours or redis.call('PEXPIRE', key, ARGV[2]) == 0 then
    answer[#answer + 1] = at
  end
end
return answer
