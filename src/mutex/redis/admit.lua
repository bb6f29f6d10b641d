-- Decides on admissions: each is a lease, a claim, or both, and is granted whole or not at all.
--
-- KEYS     for each admission its claim and its lease, as far as it has them, and the token of its mutex
-- ARGV[1]  the time of this server, in microseconds, from which on nobody waits for the answer
-- ARGV[2]  what an entry says about its holder, behind the owner and the token
-- ARGV[3]  how long a token outlives its grant, in milliseconds
-- ARGV     for each admission: 'both', 'claim' or 'lease', and for each of the two that it has, claim first, its owner
--          and its term in milliseconds
--
-- Returns the time of this server in microseconds, and behind it for each admission its token if it was granted, or
-- else what was in the way ('claim', 'lease', or 'error'), its entry, and the milliseconds it has left. Whoever asked
-- too late gets the time alone: nothing was done.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now >= tonumber(ARGV[1]) then
  return { now }
end

local about, token_kept = ARGV[2], ARGV[3]

local function is_of(entry, owner)
  return string.sub(entry, 1, #owner + 1) == owner .. ' '
end

local function foreign(key, found)
  return type(found) == 'table' and { 'error', key, found.err }
end

local function decide(claim, claim_owner, claim_term, lease, lease_owner, lease_term, token_key)
  -- Looked at before anything is written: a key that holds something else spoils this admission and no other.
  local claimed = claim and redis.pcall('GET', claim)
  local leased = lease and redis.pcall('GET', lease)
  local last = redis.pcall('GET', token_key)
  local spoiled = foreign(claim, claimed) or foreign(lease, leased) or foreign(token_key, last)
  if spoiled then
    return spoiled
  end
  if claimed and not is_of(claimed, claim_owner) then
    return { 'claim', claimed, redis.call('PTTL', claim) }
  end
  if leased and not is_of(leased, lease_owner) then
    return { 'lease', leased, redis.call('PTTL', lease) }
  end
  -- Asked again because the first answer was lost: what is ours already stays as it is.
  local ours = leased or claimed
  local token = ours and tonumber(string.match(ours, ' token=(%d+) '))
  if not token then
    token = math.max((tonumber(last) or 0) + 1, now)
    redis.call('SET', token_key, string.format('%.0f', token), 'PX', token_kept)
  end
  local entry = ' token=' .. string.format('%.0f', token) .. about
  if lease and not leased then
    redis.call('SET', lease, lease_owner .. entry, 'NX', 'PX', lease_term)
  end
  if claim and not claimed then
    redis.call('SET', claim, claim_owner .. entry, 'NX', 'PX', claim_term)
  end
  return token
end

local answers = { now }
local key, arg = 0, 3
local function next_key()
  key = key + 1
  return KEYS[key]
end
local function next_arg()
  arg = arg + 1
  return ARGV[arg]
end
while arg < #ARGV do
  local kind = next_arg()
  local claim, claim_owner, claim_term, lease, lease_owner, lease_term
  if kind ~= 'lease' then
    claim, claim_owner, claim_term = next_key(), next_arg(), next_arg()
  end
  if kind ~= 'claim' then
    lease, lease_owner, lease_term = next_key(), next_arg(), next_arg()
  end
  local token_key = next_key()
  answers[#answers + 1] = decide(claim, claim_owner, claim_term, lease, lease_owner, lease_term, token_key)
end
return answers
