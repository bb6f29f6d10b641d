-- Reads names, and changes nothing.
--
-- KEYS  the leases and the claims
--
-- Returns the time of this server in microseconds. Then it returns for each key the entry, and the milliseconds that
-- the entry has left. A free name has no entry. A key that has a list or a hash has no entry, either.

local time = redis.call('TIME')
local answer = { time[1] .. string.sub('000000' .. time[2], -6) }
for at, entry in ipairs(redis.call('MGET', unpack(KEYS))) do
  answer[#answer + 1] = entry
  answer[#answer + 1] = entry and redis.call('PTTL', KEYS[at]) or 0
end
return answer
