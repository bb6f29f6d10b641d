-- Lets leases end one term from now, each if it is still its owner's.
--
-- KEYS     the leases
-- ARGV[1]  the time of this server, in microseconds with 16 digits, before which it was not asked
-- ARGV[2]  that from which on nobody waits for the answer
-- ARGV[3]  the term in milliseconds
-- ARGV     behind it what the entries of their owners begin with, up to the space behind the owner, in the same order
--
-- Returns what the script that gives names back does: the time of this server, an empty text, and for each lease that was
-- somebody else's or nobody's its number, from 1 on, 'not ours', an empty entry, and 0. The error LATE if nobody waits any
-- more, or if the clock was set back, so that this is not known: nothing was done, because what was shortened meanwhile must
-- stay so.

local call, term = redis.call, ARGV[3]
local time = call('TIME')
local now = string.sub('0000000000' .. time[1], -10) .. string.sub('000000' .. time[2], -6)
if now < ARGV[1] or now >= ARGV[2] then
  return redis.error_reply('LATE nobody waits for the answer any more, or the clock was set back')
end
local found, says_term = call('MGET', unpack(KEYS)), ' term=' .. term .. ' '
local answer = { now, '' }
for at, key in ipairs(KEYS) do
  local entry = found[at]
  local ours = entry and string.find(entry, ARGV[at + 3], 1, true) == 1
  if not ours then
    answer[#answer + 1] = { at, 'not ours', '', 0 }
  elseif string.find(entry, says_term, 1, true) then
    call('PEXPIRE', key, term)
  else
    -- An entry says its term, or the next gate would take what is longer for the doing of a clock that was set back.
    call('SET', key, (string.gsub(entry, ' term=%d+ ', says_term, 1)), 'PX', term)
  end
end
return answer
