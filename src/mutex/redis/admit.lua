-- Decides on admissions: each is a lease, a claim, or both, and is granted whole or not at all.
--
-- KEYS[1]  the last token that was granted
-- KEYS     behind it for each admission its claim and its lease, as far as it has them
-- ARGV[1]  the time of this server, in microseconds with 16 digits, from which on nobody waits for the answer
-- ARGV[2]  what an entry says about its holder, behind the owner and the token
-- ARGV[3]  how long the token outlives its grant, in milliseconds
-- ARGV     behind it for each admission its owner with a space, and the terms of its claim and of its lease in
--          milliseconds, or '' for the one that it has not
--
-- Returns the time of this server in microseconds, the token of all that is granted, and for each exception its number
-- from 1 on, and why: 'claim' or 'lease' was taken, with its entry and the milliseconds that it has left; 'foreign', with
-- the key at which something else is; 'ours', with its entry, was granted before to the same owner, whose answer was
-- lost. Whoever asked too late gets the time alone: nothing was done.
--
-- Times and tokens are texts of 16 digits until the year 2286, and are compared as such: that is much faster than making
-- numbers of them and texts again.

local call, keys, args = redis.call, KEYS, ARGV

local time = call('TIME')
local now = time[1] .. string.sub('000000' .. time[2], -6)
if now >= args[1] then
  return { now }
end

local token = now
local last = call('SET', keys[1], token, 'PX', args[3], 'GET')
if last and (#last ~= #now or last >= now) then
  -- The clock was set back, or does not tell two calls apart.
  token = string.format('%.0f', math.max((tonumber(last) or 0) + 1, tonumber(now)))
  call('SET', keys[1], token, 'PX', args[3])
end
local entry = 'token=' .. token .. args[2]

local answer = { now, token }

-- What is at a key that can't be written: an exception, unless it is ours.
local function taken(number, what, key, owner)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'string' then
    answer[#answer + 1] = { number, 'foreign', key }
  elseif string.find(found, owner, 1, true) == 1 then
    return found
  else
    answer[#answer + 1] = { number, what, found, call('PTTL', key) }
  end
end

local at = 1
for arg = 4, #args, 3 do
  local number, owner, claim_term, lease_term = (arg - 1) / 3, args[arg], args[arg + 1], args[arg + 2]
  local mine, claim, lease = owner .. entry, nil, nil
  local claim_key, lease_key
  if claim_term ~= '' then
    at = at + 1
    claim_key = keys[at]
    claim = call('SET', claim_key, mine, 'NX', 'PX', claim_term) and mine or taken(number, 'claim', claim_key, owner)
  end
  if lease_term ~= '' then
    at = at + 1
    lease_key = keys[at]
    if claim or not claim_key then
      lease = call('SET', lease_key, mine, 'NX', 'PX', lease_term) and mine or taken(number, 'lease', lease_key, owner)
      if not lease and claim then
        call('DEL', claim_key)
      end
    end
  end
  local held = lease or (not lease_key and claim)
  if held and held ~= mine then
    answer[#answer + 1] = { number, 'ours', held }
  end
end
return answer
