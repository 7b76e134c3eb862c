--[[
  Several jobs in one call. Each has its own reply, or [error].
]]
-- An error that all have is that of the call: clients look at such errors, as after a failover.
local function together(count, run)
  local replies, errors, areSame = {}, 0, true
  local first
  for i = 1, count do
    -- rule: error-of-one-job-harms-no-other
    local isDone, reply = pcall(run, i)
    if not isDone then
      local message = type(reply) == 'table' and reply.err or tostring(reply)
      first = first or message
      errors, areSame = errors + 1, areSame and first == message
      reply = {message}
    end
    replies[i] = reply
  end
  if errors == count and areSame then return redis.error_reply(first) end
  return replies
end
