--[[
  The slots that count for a job that may start.
]]
-- The slots of a resource of a job that may start, where they are set, or its jobs were added with some.
local function slotsIn(job, resource)
  local limits = limited and limited[resource]
  if limits and limits.areSet then return limits.slots end
  local own = lineSlots and lineSlots[resource]
  if own == nil then return slotsOf(job, resource) end
  return own or nil
end

-- The same for all of its resources: a number, JSON of them by resource, or ''.
local function slotsSet(job)
  local set, only, count = {}, nil, 0
  for _, resource in ipairs(resourcesOf(job.lines)) do
    count, only = count + 1, slotsIn(job, resource)
    set[resource] = only
  end
  if count == 1 then return only and only .. '' or '' end
  return next(set) and cjson.encode(set) or ''
end

-- A job of a limited line has started: the next one, which went on sleeping behind it, is woken or held.
local function startNext(job)
  for _, resource in ipairs(resourcesOf(job.lines)) do
    local limits = limited and limited[resource]
    local moves = not (job.rate or limits and limits.rate) and 'starts' or nil
    if (slotsIn(job, resource) or SLOTS) > 1 then wakeHeads({resource}, false, '', nil, false, moves) end
  end
end
return {set = slotsSet, startNext = startNext}
