--[[
  The rights of the user that calls a script. One that is denied a command in its middle has done
  what stands before it: a job may be in no list.
  ARGV  asks: whether it looks
  Returns  an error that names the commands. A server that does not tell is not asked.
]]
-- rule: denied-script-writes-nothing
if ARGV.asks and redis.acl_check_cmd then
  local denied = {}
  for command in string.gmatch('$commands', '%a+') do
    local isCommand, mayCall = pcall(redis.acl_check_cmd, command, KEYS[#KEYS], KEYS[#KEYS])
    if isCommand and not mayCall then denied[#denied + 1] = command end
  end
  if #denied > 0 then
    return redis.error_reply('NOPERM denied commands: ' .. table.concat(denied, ' '))
  end
end
