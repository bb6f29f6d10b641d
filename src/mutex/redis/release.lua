-- Gives names back, each if it is still its owner's.
--
-- KEYS  the leases and claims, each of them once
-- ARGV  their owners, each with a space, in the same order
--
-- Returns the numbers, from 1 on, of those that were somebody else's or nobody's.

local keys, owners, find = KEYS, ARGV, string.find
local found = redis.call('MGET', unpack(keys))
local answer, ours = {}, {}
for at = 1, #keys do
  local entry = found[at]
  if entry and find(entry, owners[at], 1, true) == 1 then
    ours[#ours + 1] = keys[at]
  else
    answer[#answer + 1] = at
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return answer
