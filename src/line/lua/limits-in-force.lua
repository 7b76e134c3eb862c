--[[
  For the scripts that tell the limits of a resource.
]]
-- What is in force of what is set for a resource, both JSON.
local function inForce(text)
  local set = cjson.decode(text or '{}')
  for kind, entry in pairs(set) do
    -- rule: told-limits-are-in-force
    if (entry['until'] or math.huge) <= nowMs() then set[kind] = nil end
  end
  return next(set) and cjson.encode(set) or '{}'
end
