-- Releases the lease of the last run, and acquires the claim and the lease of the next event, in one round trip.
--
-- KEYS[1]  the last token that was granted
-- KEYS[2]  the claim
-- KEYS[3]  the lease
-- KEYS[4]  the lease of the last run; absent for the first event
-- ARGV[1]  the owner
-- ARGV[2]  the last part of an entry, after owner and token
-- ARGV[3]  the term in milliseconds
--
-- Returns the token if the event was granted, otherwise a list with the entry that holds the claim or the lease.

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
