-- Releases those leases that the owner still holds.
--
-- KEYS     the leases
-- ARGV[1]  the owner
--
-- Returns how many leases were released.

local ours = {}
for at, entry in ipairs(redis.call('MGET', unpack(KEYS))) do
  if entry and string.find(entry, ARGV[1], 1, true) == 1 then
    ours[#ours + 1] = KEYS[at]
  end
end
return #ours > 0 and redis.call('DEL', unpack(ours)) or 0
