-- Gives names back, each if it is still its owner's.
--
-- KEYS  the leases and claims, each of them once
-- ARGV  their owners, each with a space, in the same order
--
-- Returns the numbers, from 1 on, of those that were somebody else's or nobody's.

local found = redis.call('MGET', unpack(KEYS))
local answer, ours = {}, {}
for at, key in ipairs(KEYS) do
  if found[at] and string.find(found[at], ARGV[at], 1, true) == 1 then
    ours[#ours + 1] = key
  else
    answer[#answer + 1] = at
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return answer
