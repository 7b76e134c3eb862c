--[[
  Runs commands together, or not at all where a later lease has written.

  KEYS  1 the largest token so far; then the keys of the commands
  ARGV  1 token; then for each command: how many words, and the words
  Returns  {1, replies…} | {0, the stored token} where the token is stale
  Keeps: tokens stay below 2^53, so that Lua compares them exactly.
]]
local stored = redis.call('GET', KEYS[1])
-- rule: stale-commands-do-not-run
if stored and tonumber(stored) > tonumber(ARGV[1]) then return {0, stored} end
redis.call('SET', KEYS[1], ARGV[1])
local replies, at = {1}, 2
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies
