-- Gives names back, each if it is still its owner's.
--
-- KEYS  the leases and claims, each of them once
-- ARGV  their owners, each with a space, in the same order
--
-- Returns the number, from 1 on, of each that was somebody else's or nobody's; and for how many microseconds it has been
-- somebody else's. A token is the time of its grant, or later than that.

local keys, owners, find = KEYS, ARGV, string.find
local found = redis.call('MGET', unpack(keys))
local answer, ours = {}, {}

local function taken_for(entry)
  local token = entry and string.match(entry, ' token=(%d+)')
  if not token then
    return 0
  end
  local time = redis.call('TIME')
  return math.max(0, time[1] * 1000000 + time[2] - token)
end

for at = 1, #keys do
  local entry = found[at]
  if entry and find(entry, owners[at], 1, true) == 1 then
    ours[#ours + 1] = keys[at]
  else
    answer[#answer + 1] = { at, taken_for(entry) }
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return answer
