-- Takes a key for a time, where no other call has it.
local function takesTurn(name, value, forMs)
  local key = SPACE .. name
  if redis.call('SET', key, value, 'NX', 'PX', forMs) then return true end
  -- One that lives longer was written before the clock of the server was set back.
  -- rule: clock-that-was-set-back-keeps-no-turn
  if redis.call('PTTL', key) <= forMs then return false end
  redis.call('SET', key, value, 'PX', forMs)
  return true
end
