-- Gives names back, each if it is still its owner's.
--
-- KEYS  the leases and claims, each of them once
-- ARGV  their owners, each with a space, in the same order
--
-- Returns each that was somebody else's or nobody's: its number, from 1 on, its entry, empty if there is none, and the time
-- of this server in microseconds.

local keys, owners, find = KEYS, ARGV, string.find
local found = redis.call('MGET', unpack(keys))
local answer, ours = {}, {}

for at = 1, #keys do
  local entry = found[at] or ''
  if find(entry, owners[at], 1, true) == 1 then
    ours[#ours + 1] = keys[at]
  else
    local time = redis.call('TIME')
    answer[#answer + 1] = { at, entry, time[1] .. string.sub('000000' .. time[2], -6) }
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return answer
