-- Acquires the claims and leases of many events.
--
-- KEYS[1]   the last token that was granted
-- KEYS[2..] for each event: its claim, then its lease
-- ARGV[1]   the owner
-- ARGV[2]   the last part of an entry, after owner and token
-- ARGV[3]   the term in milliseconds
--
-- Returns a value for each event: 1 if it was granted, otherwise the entry that holds its claim or its lease.

local call = redis.call
local term = ARGV[3]
local time = call('TIME')
local token = time[1] .. string.sub('000000' .. time[2], -6)
local last = call('SET', KEYS[1], token, 'PX', 86400000, 'GET')
if last and last >= token then
  token = string.format('%.0f', tonumber(last) + 1)
  call('SET', KEYS[1], token, 'PX', 86400000)
end
local entry = ARGV[1] .. ' token=' .. token .. ARGV[2]
local answer = {}
for at = 2, #KEYS, 2 do
  local claim, lease = KEYS[at], KEYS[at + 1]
  if not call('SET', claim, entry, 'NX', 'PX', term) then
    answer[#answer + 1] = call('GET', claim)
  elseif not call('SET', lease, entry, 'NX', 'PX', term) then
    call('DEL', claim)
    answer[#answer + 1] = call('GET', lease)
  else
    answer[#answer + 1] = 1
  end
end
return answer
