--[[
  What of the limits of a resource has not ended.
]]
-- By its kind, of what is set (JSON); and whether a rate has ended.
local function inForce(text)
  local set, hasEndedRate = cjson.decode(text or '{}'), false
  for kind, entry in pairs(set) do
    -- rule: limits-end
    if (entry['until'] or math.huge) <= nowMs() then
      set[kind], hasEndedRate = nil, hasEndedRate or kind == 'rate'
    end
  end
  return set, hasEndedRate
end
