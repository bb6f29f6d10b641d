-- Gives names back, each if it is still its owner's.
--
-- KEYS  the leases and claims
-- ARGV  their owners, in the same order
--
-- Returns for each 1 if it was given back, 0 if it was somebody else's or nobody's.

local answers = {}
for at, key in ipairs(KEYS) do
  local entry = redis.pcall('GET', key)
  if type(entry) == 'string' and string.sub(entry, 1, #ARGV[at] + 1) == ARGV[at] .. ' ' then
    answers[at] = redis.call('DEL', key)
  else
    answers[at] = 0
  end
end
return answers
