--[[
  Why a job failed, for people: what its processor threw may be a whole page.
]]
local MOST_BYTES = 1000
local function shortReason(reason)
  if not reason or #reason <= MOST_BYTES then return reason or '' end
  -- Whole characters.
  return string.match(string.sub(reason, 1, MOST_BYTES), '^(.-)[\192-\255]?[\128-\191]*$') .. '…'
end
