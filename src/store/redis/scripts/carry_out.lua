-- Decides on admissions: each is a lease, a claim, or both, and is granted whole or not at all.
--
-- KEYS[1]  the last token that was granted
-- KEYS     behind it for each admission its claim and its lease, as far as it has them; before the first of those that are
--          excluded by the same names, these names; no admission of this call changes a name that excludes another
-- ARGV[1]  the time of this server, in microseconds with 16 digits, before which it was not asked
-- ARGV[2]  that from which on nobody waits for the answer
-- ARGV[3]  what an entry says about its holder, behind the owner, the token and the term
-- ARGV[4]  how long the token outlives its grant, in milliseconds
-- ARGV     behind it for each admission the number at the end of its owner; before that, where it is not as it was for the
--          one before: '@' and the terms of its claim and of its lease in milliseconds, 0 if it has none; how many of the
--          next keys exclude it, or '=' if what excludes the one before does; and the rest of its owner. Few are different,
--          and each text costs its time.
--
-- Returns the time of this server in microseconds, the token of all that is granted, and for each exception its number
-- from 1 on, why, an entry, and the milliseconds that it has left:
--   'claim', 'lease'  it was taken
--   'excluded'        and which of the names that exclude it is held, from 1 on; the entry is empty if it is no text
--   'ours'            it was granted before to the same owner, whose answer was lost
-- Where the server takes no writes, its error is the answer; where the last token is damaged, that is an error too. Whoever
-- asked too late, or before the clock was set back, gets the error LATE: nothing was done.
--
-- What would be held for longer than its term is shortened to that: the clock was set back since it was granted or extended.
--
-- Times and tokens are texts of 16 digits until the year 2286, and are compared as such: that is much faster than making
-- numbers of them and texts again.

local call, keys, args = redis.call, KEYS, ARGV

local time = call('TIME')
local now = string.sub('0000000000' .. time[1], -10) .. string.sub('000000' .. time[2], -6)
if now < args[1] or now >= args[2] then
  return redis.error_reply('LATE nobody waits for the answer any more, or the clock was set back')
end

local token = now
local last = redis.pcall('SET', keys[1], token, 'PX', args[4], 'GET')
if type(last) == 'table' and last.err and not string.find(last.err, 'WRONGTYPE', 1, true) then
  return last -- The server takes no writes, and says why.
end
if last and (#last ~= #now or last >= now) then
  -- The clock was set back, or does not tell two calls apart. Above 2^53, numbers here don't count by one.
  local after = type(last) == 'string' and string.match(last, '^%d+$') and tonumber(last) + 1
  if not after or after > 9007199254740991 then
    if type(last) == 'string' then
      call('SET', keys[1], last)
    end
    return redis.error_reply('NOTOKEN something else than a token is at the key ' .. keys[1] .. ': delete that key')
  end
  token = string.format('%.0f', math.max(after, tonumber(now)))
  call('SET', keys[1], token, 'PX', args[4])
end
local granted = ' token=' .. token .. ' term='

local answer = { now, token }

local byte, find, match, sub = string.byte, string.find, string.match, string.sub

-- What is at a key that can't be written: an exception, unless it is ours.
local function taken(number, what, key, owner)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'string' then
    answer[#answer + 1] = { number, what, 'what is at ' .. key, -1 }
  elseif find(found, owner .. ' ', 1, true) == 1 then
    return found
  else
    local left = redis.pcall('PTTL', key)
    local term = tonumber(match(found, '^%S+ token=%d+ term=(%d+) '))
    if term and type(left) == 'number' and left > term then
      call('PEXPIRE', key, term)
      left = term
    end
    answer[#answer + 1] = { number, what, found, type(left) == 'number' and left or -1 }
  end
end

-- What excludes: the entry at the first of these keys that has one, whatever it is, the milliseconds that it has left, and
-- which key that is; nothing if there is none.
local function held(from, count)
  for which = 1, count do
    local key = keys[from + which]
    local found = redis.pcall('GET', key)
    if type(found) == 'string' then
      return { found, call('PTTL', key), which }
    elseif found then
      return { '', -1, which }
    end
  end
end

local at, number = 1, 0
local process, claim_term, lease_term, excluded
local claim_entry, lease_entry
for arg = 5, #args do
  local text = args[arg]
  if byte(text) == 64 then -- @
    local excluding
    claim_term, lease_term, excluding, process = match(text, '^@(%d+) (%d+) (%S+) (%S+)$')
    claim_term, lease_term = claim_term ~= '0' and claim_term, lease_term ~= '0' and lease_term
    claim_entry = claim_term and granted .. claim_term .. args[3]
    lease_entry = lease_term and granted .. lease_term .. args[3]
    if excluding ~= '=' then
      excluded = held(at, tonumber(excluding))
      at = at + tonumber(excluding)
    end
  elseif excluded then
    number = number + 1
    -- What was granted to the same owner before stays granted, whoever excludes it since.
    local asked, ours, entry = (claim_term and 1 or 0) + (lease_term and 1 or 0), 0, nil
    for which = 1, asked do
      local found = redis.pcall('GET', keys[at + which])
      if type(found) == 'string' and find(found, process .. text .. ' ', 1, true) == 1 then
        ours, entry = ours + 1, found
      end
    end
    at = at + asked
    if ours == asked then
      answer[#answer + 1] = { number, 'ours', entry, 0 }
    else
      answer[#answer + 1] = { number, 'excluded', excluded[1], excluded[2], excluded[3] }
    end
  else
    number = number + 1
    local claim_key, lease_key, claim, lease, claimed, leased
    if claim_term then
      at = at + 1
      claim_key = keys[at]
      claim = process .. text .. claim_entry
      claimed = call('SET', claim_key, claim, 'NX', 'PX', claim_term)
      if not claimed then
        claim = taken(number, 'claim', claim_key, process .. text)
      end
    end
    if lease_term then
      at = at + 1
      if claim or not claim_term then
        lease_key = keys[at]
        lease = process .. text .. lease_entry
        leased = call('SET', lease_key, lease, 'NX', 'PX', lease_term)
        if not leased then
          lease = taken(number, 'lease', lease_key, process .. text)
        end
        -- A claim that was there already is left: this may be a late copy of what was asked before the run that is over.
        if claimed and not lease then
          call('DEL', claim_key)
        end
      end
    end
    local granted_now = leased or (not lease_term and claimed)
    local held = lease or (not lease_term and claim)
    if held and not granted_now then
      answer[#answer + 1] = { number, 'ours', held, 0 }
    end
  end
end
return answer
