-- Reads names, and changes nothing.
--
-- KEYS  the leases and the claims
--
-- Returns the time of this server in microseconds. Then it returns for each key the entry, and the milliseconds that
-- the entry has left. A free name has no entry. If the key has a list or a hash, the script returns a text about that
-- in place of the entry. Any other error of the server, such as a missing right, is the whole answer.

local time = redis.call('TIME')
local answer = { time[1] .. string.sub('000000' .. time[2], -6) }
for _, key in ipairs(KEYS) do
  local entry = redis.pcall('GET', key)
  if type(entry) == 'table' and not string.find(entry.err, 'WRONGTYPE', 1, true) then
    return entry
  elseif type(entry) == 'table' then
    entry = 'no text at ' .. key
  end
  answer[#answer + 1] = entry
  answer[#answer + 1] = entry and redis.call('PTTL', key) or 0
end
return answer
