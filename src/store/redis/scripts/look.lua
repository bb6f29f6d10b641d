-- Looks at a name and changes nothing.
--
-- KEYS[1]  the lease or the claim
--
-- Returns its entry, or what says that there is something else, the milliseconds it has left, and the time of this server
-- in microseconds; nothing if it is free.

local entry = redis.pcall('GET', KEYS[1])
if not entry then
  return false
end
if type(entry) == 'table' then
  entry = 'what is at ' .. KEYS[1]
end
local time = redis.call('TIME')
return { entry, redis.call('PTTL', KEYS[1]), time[1] .. string.sub('000000' .. time[2], -6) }
