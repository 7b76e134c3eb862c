--[[
  ARGV  base · slots · commands: those that the scripts of a queue call
  Returns  which of them the server denies its user, on keys of the queue. Where it does not tell
  scripts what it denies, none.
]]
local denied, key = {}, ARGV.base .. 'trial'
for _, command in ipairs(redis.acl_check_cmd and ARGV.commands or {}) do
  if not redis.acl_check_cmd(command, key, key) then denied[#denied + 1] = command end
end
return denied
