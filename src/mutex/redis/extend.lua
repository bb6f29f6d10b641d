-- Lets leases end one term from now, each if it is still its owner's.
--
-- KEYS     the leases
-- ARGV[1]  the term in milliseconds
-- ARGV     behind it their owners, each with a space, in the same order
--
-- Returns the numbers, from 1 on, of those that were somebody else's or nobody's.

local found = redis.call('MGET', unpack(KEYS))
local answer = {}
for at, key in ipairs(KEYS) do
  local ours = found[at] and string.find(found[at], ARGV[at + 1], 1, true) == 1
  if not ours or redis.call('PEXPIRE', key, ARGV[1]) == 0 then
    answer[#answer + 1] = at
  end
end
return answer
