-- Gives the last run's lease back, and takes the next event's claim and lease: in one trip, for one event.
--
-- KEYS[1]  the last token that was granted
-- KEYS[2]  the claim
-- KEYS[3]  the lease
-- KEYS[4]  the lease of the last run, if there is one
-- ARGV[1]  who asks
-- ARGV[2]  what an entry says besides
-- ARGV[3]  the term in milliseconds
--
-- Returns the token, or the entry that is in the way.

local call = redis.call
local owner, term = ARGV[1], ARGV[3]
if KEYS[4] and string.find(call('GET', KEYS[4]) or '', owner, 1, true) == 1 then
  call('DEL', KEYS[4])
end
local time = call('TIME')
local token = time[1] .. string.sub('000000' .. time[2], -6)
local last = call('SET', KEYS[1], token, 'PX', 86400000, 'GET')
if last and last >= token then
  token = string.format('%.0f', tonumber(last) + 1)
  call('SET', KEYS[1], token, 'PX', 86400000)
end
local entry = owner .. ' token=' .. token .. ARGV[2]
if not call('SET', KEYS[2], entry, 'NX', 'PX', term) then
  return { call('GET', KEYS[2]) }
end
if not call('SET', KEYS[3], entry, 'NX', 'PX', term) then
  call('DEL', KEYS[2])
  return { call('GET', KEYS[3]) }
end
return token
