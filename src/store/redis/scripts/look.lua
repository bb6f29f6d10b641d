-- Looks at names and changes nothing.
--
-- KEYS  the leases and the claims
--
-- Returns the time of this server in microseconds; and for each key its entry, or what says that there is something else, and
-- the milliseconds that it has left. A name that is free has no entry.

local time = redis.call('TIME')
local answer = { time[1] .. string.sub('000000' .. time[2], -6) }
for _, key in ipairs(KEYS) do
  local entry = redis.pcall('GET', key)
  if type(entry) == 'table' then
    entry = 'no text at ' .. key
  end
  answer[#answer + 1] = entry
  answer[#answer + 1] = entry and redis.call('PTTL', key) or 0
end
return answer
