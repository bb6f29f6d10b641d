-- Decides on admissions: each is a lease, a claim, or both, and is granted whole or not at all.
--
-- KEYS[1]  the last token that was granted
-- KEYS     behind it for each admission its claim and its lease, as far as it has them
-- ARGV[1]  the time of this server, in microseconds with 16 digits, from which on nobody waits for the answer
-- ARGV[2]  what an entry says about its holder, behind the owner and the token
-- ARGV[3]  how long the token outlives its grant, in milliseconds
-- ARGV     behind it for each admission the number at the end of its owner; before that, as far as it is not as it was
--          for the one before: '@' and the rest of the owner, 'c' and the term of its claim in milliseconds, 'l' and the
--          term of its lease; 'c' or 'l' alone if it has none. Few are different, and each text costs its time.
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
local now = string.sub('0000000000' .. time[1], -10) .. string.sub('000000' .. time[2], -6)
if now >= args[1] then
  return { now }
end

local token = now
local last = redis.pcall('SET', keys[1], token, 'PX', args[3], 'GET')
if last and (#last ~= #now or last >= now) then
  -- The clock was set back, or does not tell two calls apart. Above 2^53, numbers here don't count by one.
  local after = type(last) == 'string' and string.match(last, '^%d+$') and tonumber(last) + 1
  if not after or after > 9007199254740991 then
    if type(last) == 'string' then
      call('SET', keys[1], last)
    end
    return redis.error_reply((last.err or 'ERR it is no token') .. ', at the key ' .. keys[1] .. ': delete that')
  end
  token = string.format('%.0f', math.max(after, tonumber(now)))
  call('SET', keys[1], token, 'PX', args[3])
end
local entry = ' token=' .. token .. args[2]

local answer = { now, token }

-- What is at a key that can't be written: an exception, unless it is ours.
local function taken(number, what, key, owner)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'string' then
    answer[#answer + 1] = { number, 'foreign', key }
  elseif string.find(found, owner .. ' ', 1, true) == 1 then
    return found
  else
    local left = redis.pcall('PTTL', key)
    answer[#answer + 1] = { number, what, found, type(left) == 'number' and left or -1 }
  end
end

local byte, sub = string.byte, string.sub
local at, number = 1, 0
local process, claim_term, lease_term = '', nil, nil
for arg = 4, #args do
  local text = args[arg]
  local kind = byte(text)
  if kind == 64 then -- @
    process = sub(text, 2)
  elseif kind == 99 then -- c
    claim_term = #text > 1 and sub(text, 2)
  elseif kind == 108 then -- l
    lease_term = #text > 1 and sub(text, 2)
  else
    number = number + 1
    local mine = process .. text .. entry
    local claim_key, lease_key, claim, lease
    if claim_term then
      at = at + 1
      claim_key = keys[at]
      claim = call('SET', claim_key, mine, 'NX', 'PX', claim_term) and mine
        or taken(number, 'claim', claim_key, process .. text)
    end
    if lease_term then
      at = at + 1
      if claim or not claim_term then
        lease_key = keys[at]
        lease = call('SET', lease_key, mine, 'NX', 'PX', lease_term) and mine
          or taken(number, 'lease', lease_key, process .. text)
        -- A claim that was there already is left: this may be a late copy of what was asked before the run that is over.
        if claim == mine and not lease then
          call('DEL', claim_key)
        end
      end
    end
    local held = lease or (not lease_term and claim)
    if held and held ~= mine then
      answer[#answer + 1] = { number, 'ours', held }
    end
  end
end
return answer
