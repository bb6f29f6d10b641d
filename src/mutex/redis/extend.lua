-- Lets leases end one term from now, each if it is still its owner's.
--
-- KEYS     the leases
-- ARGV[1]  the term in milliseconds
-- ARGV     behind it their owners, in the same order
--
-- Returns for each 1 if it was extended, 0 if it was somebody else's or nobody's.

local answers = {}
for at, key in ipairs(KEYS) do
  local entry, owner = redis.pcall('GET', key), ARGV[at + 1]
  if type(entry) == 'string' and string.sub(entry, 1, #owner + 1) == owner .. ' ' then
    answers[at] = redis.call('PEXPIRE', key, ARGV[1])
  else
    answers[at] = 0
  end
end
return answers
