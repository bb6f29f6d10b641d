-- Gives names back, each if it is still its owner's.
--
-- KEYS  the leases and claims, each of them once
-- ARGV  their owners, each with a space, in the same order
--
-- Returns the number, from 1 on, of each that was somebody else's or nobody's; with somebody else's entry, and the time of
-- this server in microseconds.

local keys, owners, find = KEYS, ARGV, string.find
local found = redis.call('MGET', unpack(keys))
local answer, ours = {}, {}

local function taken(at, entry)
  if not entry then
    return { at }
  end
  local time = redis.call('TIME')
  return { at, entry, time[1] .. string.sub('000000' .. time[2], -6) }
end

for at = 1, #keys do
  local entry = found[at]
  if entry and find(entry, owners[at], 1, true) == 1 then
    ours[#ours + 1] = keys[at]
  else
    answer[#answer + 1] = taken(at, entry)
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return answer
