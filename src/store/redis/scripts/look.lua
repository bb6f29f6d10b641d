-- Reads names, and changes nothing.
--
-- KEYS  the leases and the claims
--
-- Returns the time of this server in microseconds. Then it returns for each key the entry, and the milliseconds that
-- the entry has left. A free name has no entry. A key that has a list or a hash has an entry that can't be read.

local time = redis.call('TIME')
local answer = { time[1] .. string.sub('000000' .. time[2], -6) }
for at, entry in ipairs(redis.call('MGET', unpack(KEYS))) do
  -- A list or a hash reads as false, too, but PTTL is -2 only for a missing key.
  local left = redis.call('PTTL', KEYS[at])
  answer[#answer + 1] = entry or (left ~= -2 and 'no text at ' .. KEYS[at])
  answer[#answer + 1] = left
end
return answer
