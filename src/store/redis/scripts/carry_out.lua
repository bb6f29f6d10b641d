-- Ends leases and claims, each only if its owner still holds it. Then decides on admissions. An admission is a lease, a
-- claim, or both, and is granted whole or not at all. A refused admission writes nothing, with one exception. If an
-- entry has more time left than its term, the clock was set back after the entry was written. Then the entry is
-- shortened to one term from now.
--
-- KEYS[1]  the last token that was granted
-- KEYS[2]  the revoked owners: they are granted nothing more, because a copy of their admissions may still arrive
-- KEYS     the names to end; then for each admission the names that exclude it, its claim if it has one, and its lease if it has one
-- ARGV[1]  the time of this server when the request was sent, in microseconds with 16 digits
-- ARGV[2]  the time of this server at the deadline of the call
-- ARGV[3]  how many names to end
-- ARGV[4]  for how many milliseconds a revoked owner is granted nothing more
-- ARGV[5]  for how many milliseconds the last token is kept; after that, only the server's clock makes tokens rise
-- ARGV[6]  1 if an earlier copy of the admissions may still arrive, so that the granted owners are also revoked; or 0
-- ARGV     for each name to end: its owner; and 'now', 'revoke', or the milliseconds from now after which it ends
-- ARGV     for each admission: its owner; how many names exclude it; the term of its claim and the term of its lease, in
--          milliseconds, or 0 for none; and the end of its entries, which follows the term
--
-- Each owner in ARGV is the beginning of an entry: the format, the owner, a space.
--
-- Returns the time of this server in microseconds, and then a reply to each name to end and to each admission, in their order.
-- An error in place of a reply says that nothing was done: `LATE` if the deadline has passed, `WRONGTYPE` if a name has another
-- kind of value, such as a list, or the error of a refused write.
--
-- The reply to the end of a name is 1, or the entry of another owner, or '' if the name is free.
--
-- The reply to a granted admission is its token. An admission that was granted before gets its first token again.
-- The reply to a refused admission has the reason, an entry, and the milliseconds that the entry has left. The reasons are:
--   'claim', 'lease'  another owner holds this name; or the entry is the owner's own, because the owner's run is over
--   'excluded'        an excluding name is held; a fourth value is its number among the excluding names, from 1
--
-- Times and tokens are texts of 16 digits until the year 2286, and are compared as such.

-- The most characters in the list of revoked owners: about 220 owners. The list drops its oldest owners. A longer list
-- would hold up the server: each admission searches the list, and a full list takes 8 µs.
local longest = 10000

local call, try, find, match, keys, args = redis.call, redis.pcall, string.find, string.match, KEYS, ARGV

local time = call('TIME')
local now = string.sub('0000000000' .. time[1], -10) .. string.sub('000000' .. time[2], -6)
local answer = { now }
local late = (now < args[1] or now >= args[2])
  and redis.error_reply('LATE the deadline of the call has passed, or the clock was set back')

-- The text at each key, or false. A list or a hash reads as false, too. Such a name can't be taken, and as an excluding
-- name it counts as held.
local entries = {}
for first = 1, #keys, 1000 do
  local found = call('MGET', unpack(keys, first, math.min(first + 999, #keys)))
  for at = 1, #found do
    entries[keys[first + at - 1]] = found[at]
  end
end

local function is_of(owner, entry)
  return find(entry, owner, 1, true) == 1
end

local replies = 1
local function reply(with)
  replies = replies + 1
  answer[replies] = with
end

-- The last key and the last argument that were read.
local at, arg = 2, 6

local revoked, newly_revoked, ended = entries[keys[2]] or '', {}, {}
for _ = 1, tonumber(args[3]) do
  at = at + 1
  local key, owner, ending = keys[at], args[arg + 1], args[arg + 2]
  arg = arg + 2
  local entry, moves = entries[key], ending ~= 'now' and ending ~= 'revoke'
  -- The claim and the lease of a run are adjacent, and have one owner. The list gets this owner once.
  if ending == 'revoke' and newly_revoked[#newly_revoked] ~= owner then
    newly_revoked[#newly_revoked + 1] = owner
  end
  if moves and late then
    reply(late)
  elseif not entry or not is_of(owner, entry) then
    reply(entry or '')
  elseif not moves then
    ended[#ended + 1] = key
    entries[key] = false
    reply(1)
  elseif match(entry, '^%S+ %S+ token=%d+ term=(%d+) ') == ending then
    call('PEXPIRE', key, ending) -- This needs no memory, so a server whose memory is full does it, too.
    reply(1)
  else
    local changed = string.gsub(entry, ' term=%d+ ', ' term=' .. ending .. ' ', 1)
    local written = try('SET', key, changed, 'PX', ending)
    entries[key] = written.err and entry or changed
    reply(written.err and written or 1)
  end
end
if #ended > 0 then
  call('DEL', unpack(ended))
end

-- The token of all grants of this call, or the error if there can be no token.
local token

local function new_token()
  local last, new, written = entries[keys[1]], now, nil
  if last and (#last ~= #now or last >= now) then
    -- The clock was set back, or two calls came in one microsecond. Lua can't add 1 to a number above 2^53.
    local after = match(last, '^%d+$') and tonumber(last) + 1
    new = after and after <= 9007199254740991 and string.format('%.0f', math.max(after, tonumber(now)))
  end
  if new then
    written = try('SET', keys[1], new, 'PX', args[5], last and 'XX' or 'NX')
  end
  if not written then
    local what = 'the value at the key ' .. keys[1] .. ' is no token: delete that key'
    written = redis.error_reply('NOTOKEN ' .. what)
  end
  return written.err and written or new
end

-- Refuses an admission, because of an entry.
local function refuse(kind, key, which)
  local entry, left = entries[key], call('PTTL', key)
  local term = tonumber(match(entry, '^v1 %S+ token=%d+ term=(%d+) '))
  if term and left > term and not which then
    call('PEXPIRE', key, term)
    left = term
  end
  reply({ kind, entry, left, which })
end

-- Writes the entry of a name that reads as free. Returns an error if the key has a list or a hash, for example.
local function take(key, owner, term, rest)
  if not key or entries[key] then
    return
  end
  local entry = owner .. 'token=' .. token .. ' term=' .. term .. rest
  if not call('SET', key, entry, 'NX', 'PX', term) then
    return redis.error_reply('WRONGTYPE the value at the key ' .. key .. ' is no text: delete that key')
  end
  entries[key] = entry
end

while arg < #args do
  local owner, exclusions, claim_term = args[arg + 1], tonumber(args[arg + 2]), args[arg + 3]
  local lease_term, rest = args[arg + 4], args[arg + 5]
  arg = arg + 5
  local excluding, excluding_key, claim_key, lease_key
  for which = 1, exclusions do
    at = at + 1
    local key = keys[at]
    -- PTTL is -2 only for a missing key.
    if not entries[key] and call('PTTL', key) ~= -2 then
      entries[key] = 'no text at ' .. key
    end
    if entries[key] and not excluding then
      excluding, excluding_key = which, key
    end
  end
  if claim_term ~= '0' then
    at = at + 1
    claim_key = keys[at]
  end
  if lease_term ~= '0' then
    at = at + 1
    lease_key = keys[at]
  end
  local claim, lease = claim_key and entries[claim_key], lease_key and entries[lease_key]
  local has_claim, has_lease = claim and is_of(owner, claim), lease and is_of(owner, lease)

  -- The order of the checks: the call is late; the admission is granted already; the owner is revoked; an excluding
  -- name is held; one of its own names is held.
  if late then
    reply(late)
  elseif (has_claim or not claim_key) and (has_lease or not lease_key) then
    -- The admission stays granted, even if an excluding name was taken since then.
    reply(match(lease or claim, ' token=(%d+) ') or redis.error_reply('NOTOKEN no token is in the entry of ' .. owner))
  elseif revoked ~= '' and find(revoked, owner, 1, true) then
    local own = owner .. 'token=0 term=' .. (lease_key and lease_term or claim_term) .. rest
    reply({ lease_key and 'lease' or 'claim', own, 0 })
  elseif excluding then
    refuse('excluded', excluding_key, excluding)
  elseif claim and not has_claim then
    refuse('claim', claim_key)
  elseif has_claim and not lease then
    reply({ 'claim', claim, 0 }) -- This is a late copy of the admission of a run that has ended.
  elseif lease and not has_lease then
    refuse('lease', lease_key)
  else
    token = token or new_token()
    local failed = token.err and token or take(claim_key, owner, claim_term, rest)
    if not failed then
      failed = take(lease_key, owner, lease_term, rest)
      if failed and claim_key and not has_claim then
        call('DEL', claim_key)
        entries[claim_key] = false
      end
    end
    if not failed and args[6] == '1' then
      -- The run's release may come before an earlier copy of the admission, so this copy is refused from now on.
      newly_revoked[#newly_revoked + 1] = owner
    end
    reply(failed or token)
  end
end
if #newly_revoked > 0 then
  revoked = string.sub(revoked .. table.concat(newly_revoked), -longest)
  local kept_ms = math.max(call('PTTL', keys[2]), tonumber(args[4])) -- Another process may have asked for a longer time.
  try('SET', keys[2], revoked, 'PX', kept_ms) -- If the server refuses this write, the decisions still count.
end
return answer
