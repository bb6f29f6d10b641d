-- Gives names back, each if it is still its owner's. Then decides on admissions: each is a lease, a claim, or both, and is
-- granted whole or not at all.
--
-- KEYS     the leases and claims to give back, each of them once
-- KEYS     where there are admissions, or ARGV[2], the last token that was granted; beside it, at this key and ":spent", are
--          the owners that are granted nothing more
-- KEYS     and where there are admissions, for each admission its claim and its lease, as far as it has them; before the
--          first of those that are excluded by the same names, these names. No admission of this call changes a name that
--          excludes another.
-- ARGV[1]  how many names to give back
-- ARGV[2]  for how many milliseconds their owners are granted nothing more, because a copy of their admissions may still be
--          on its way; empty if there is none
-- ARGV     what the entries of the owners of these names begin with, up to the space behind the owner, in the same order
-- ARGV     and where there are admissions:
--          the time of this server, in microseconds with 16 digits, before which it was not asked
--          that from which on nobody waits for the answer
--          what an entry says about its holder, behind the owner, the token and the term
--          '1' to stop at the first that is granted, '0' to decide on all
-- ARGV     for each group of admissions that are alike: how many these are; the terms of their claims and of their leases in
--          milliseconds, empty if they have none; how many of the next keys exclude them, or '=' if what excludes the group
--          before does; what their entries begin with, up to the middle of the owner; and the end of the owner of each
--
-- Returns the time of this server in microseconds; the token of all that is granted; and for each exception its number, why,
-- an entry, and the milliseconds that it has left. The names to give back have the numbers from 1 on, and the admissions
-- those behind them.
--   'not ours'        it was somebody else's or nobody's, whose entry is empty
--   'claim', 'lease'  it was taken; or its owner is granted nothing more, whose own entry this is
--   'excluded'        and which of the names that exclude it is held, from 1 on; the entry is empty if it is no text
--   'ours'            it was granted before to the same owner, whose answer was lost
-- In the place of the token there is an error if there is no decision: where the server takes no writes, its own; NOTOKEN if
-- the last token is damaged; LATE if the call came too late, or before the clock was set back. None was granted then.
--
-- An entry begins with its format, `v1`, and its owner. One of another format is left as it is, and is an exception.
--
-- What would be held for longer than its term is shortened to that: the clock was set back since it was granted or extended.
--
-- Times and tokens are texts of 16 digits until the year 2286, and are compared as such: that is much faster than making
-- numbers of them and texts again. The same goes for terms. Each argument and each part of the answer costs its time.

local call, find, sub, keys, args = redis.call, string.find, string.sub, KEYS, ARGV

-- How many characters of owners that are granted nothing more are kept: 200 owners, whose calls the network has broken in the
-- last seconds.
local longest = 10000

local time = call('TIME')
local now = sub('0000000000' .. time[1], -10) .. sub('000000' .. time[2], -6)
local answer = { now, '' }

local releases = tonumber(args[1])
if releases > 0 then
  local found, ours = call('MGET', unpack(keys, 1, releases)), {}
  for at = 1, releases do
    local entry = found[at] or ''
    if find(entry, args[at + 2], 1, true) == 1 then
      ours[#ours + 1] = keys[at]
    else
      answer[#answer + 1] = { at, 'not ours', entry, 0 }
    end
  end
  if #ours > 0 then
    call('DEL', unpack(ours))
  end
end

-- The last key and the last argument that were read, and the number of the last admission.
local at, arg, number = releases + 1, releases + 6, releases
local spent = keys[at] and redis.pcall('GET', keys[at] .. ':spent')
if type(spent) ~= 'string' then
  spent = ''
end
if args[2] ~= '' then
  -- Where the server takes no writes, what was given back stays so.
  local owners = sub(spent .. table.concat(args, '', 3, releases + 2), -longest)
  redis.pcall('SET', keys[at] .. ':spent', owners, 'PX', args[2])
end
if arg > #args then
  return answer
end
if now < args[arg - 3] or now >= args[arg - 2] then
  answer[2] = redis.error_reply('LATE nobody waits for the answer any more, or the clock was set back')
  return answer
end

-- A token outlives its grant by 30 days. Later, it is the server's clock alone that lets tokens rise.
local token, kept_ms = now, '2592000000'
local last = redis.pcall('SET', keys[at], token, 'PX', kept_ms, 'GET')
if type(last) == 'table' and last.err and not find(last.err, 'WRONGTYPE', 1, true) then
  answer[2] = last -- The server takes no writes, and says why.
  return answer
end
if last and (#last ~= #now or last >= now) then
  -- The clock was set back, or does not tell two calls apart. Above 2^53, numbers here don't count by one.
  local after = type(last) == 'string' and string.match(last, '^%d+$') and tonumber(last) + 1
  if not after or after > 9007199254740991 then
    if type(last) == 'string' then
      call('SET', keys[at], last)
    end
    local what = 'something else than a token is at the key ' .. keys[at] .. ': delete that key'
    answer[2] = redis.error_reply('NOTOKEN ' .. what)
    return answer
  end
  token = string.format('%.0f', math.max(after, tonumber(now)))
  call('SET', keys[at], token, 'PX', kept_ms)
end
answer[2] = token
local granted, holder, stops = ' token=' .. token .. ' term=', args[arg - 1], args[arg] == '1'

-- What is at a key that can't be written: an exception, unless it is ours.
local function taken(what, key, owner)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'string' then
    answer[#answer + 1] = { number, what, 'what is at ' .. key, -1 }
  elseif find(found, owner .. ' ', 1, true) == 1 then
    return found
  else
    local left = redis.pcall('PTTL', key)
    local term = tonumber(string.match(found, '^v1 %S+ token=%d+ term=(%d+) '))
    if term and type(left) == 'number' and left > term then
      call('PEXPIRE', key, term)
      left = term
    end
    answer[#answer + 1] = { number, what, found, type(left) == 'number' and left or -1 }
  end
end

local excluded
while arg < #args do
  local claim_term, lease_term, excluding, process = args[arg + 2], args[arg + 3], args[arg + 4], args[arg + 5]
  local claim_entry = claim_term ~= '' and granted .. claim_term .. holder
  local lease_entry = lease_term ~= '' and granted .. lease_term .. holder

  -- What excludes: the entry at the first of these keys that has one, whatever it is, the milliseconds that it has left,
  -- and which key that is; nothing if there is none.
  if excluding ~= '=' then
    excluded = nil
    for which = 1, excluding do
      local found = not excluded and redis.pcall('GET', keys[at + which])
      if type(found) == 'string' then
        excluded = { found, call('PTTL', keys[at + which]), which }
      elseif found then
        excluded = { '', -1, which }
      end
    end
    at = at + excluding
  end

  local begin = arg + 6
  arg = arg + 5 + args[arg + 1]
  for which = begin, arg do
    number = number + 1
    local owner = process .. args[which]
    if find(spent, owner .. ' ', 1, true) then
      at = at + (claim_entry and 1 or 0) + (lease_entry and 1 or 0)
      answer[#answer + 1] = { number, lease_entry and 'lease' or 'claim', owner .. (lease_entry or claim_entry), 0 }
    elseif excluded then
      -- What was granted to the same owner before stays granted, whoever excludes it since.
      local asked, ours, entry = (claim_entry and 1 or 0) + (lease_entry and 1 or 0), 0, nil
      for which = 1, asked do
        local found = redis.pcall('GET', keys[at + which])
        if type(found) == 'string' and find(found, owner .. ' ', 1, true) == 1 then
          ours, entry = ours + 1, found
        end
      end
      at = at + asked
      if ours == asked then
        answer[#answer + 1] = { number, 'ours', entry, 0 }
        if stops then
          return answer
        end
      else
        answer[#answer + 1] = { number, 'excluded', excluded[1], excluded[2], excluded[3] }
      end
    else
      -- What is held of what was asked for, as far as it is this owner's: an entry, or `true` if it was granted just now.
      local claim, lease
      if claim_entry then
        at = at + 1
        local set = call('SET', keys[at], owner .. claim_entry, 'NX', 'PX', claim_term)
        claim = set and true or taken('claim', keys[at], owner)
      end
      if lease_entry then
        at = at + 1
        if type(claim) == 'string' and not redis.pcall('GET', keys[at]) then
          -- This is a late copy of what was asked before the run that is over.
          answer[#answer + 1] = { number, 'claim', claim, 0 }
        elseif claim or not claim_entry then
          local set = call('SET', keys[at], owner .. lease_entry, 'NX', 'PX', lease_term)
          lease = set and true or taken('lease', keys[at], owner)
          -- A claim that was there already is left: its run is over.
          if claim == true and not lease then
            call('DEL', keys[at - 1])
          end
        end
      end
      local held = lease
      if not lease_entry then
        held = claim
      end
      if held and held ~= true then
        answer[#answer + 1] = { number, 'ours', held, 0 }
      end
      if held and stops then
        return answer
      end
    end
  end
end
return answer
