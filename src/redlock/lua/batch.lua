--[[
  Many calls in one trip: runs the verbs that its entries name. Each verb runs atomically and is safe
  to run twice. `wire/calls.ts` carries it to every enrolled master.

  ARGV  1 the entries, one behind the other. Each is a list of texts that end with NUL: the verb,
          token, fence, leaseMs, waitMs, waiter, the resources and an empty one. A NUL in a text is
          \1\2, and a \1 is \1\1.
        2 run id of the server that the caller enrolled
  Returns  one mark for each entry, `+` usual and `*` not; and, if a verb read it, the server's TIME,
           each part behind a space. Where there is a `*`: a list of this text and of their replies,
           what the verb returned | failed:, error message
  Keeps: an entry that fails does not keep the others from running. A lock master is never a
  cluster, so no keys are named.

  A verb is a file, and its text stands here as it is: a function would cost as much as a command. It
  sees the fields of its entry as texts, `resources` as a list and `count` as a number. It returns
  true for its usual outcome, else an array that begins with a word; `TOGETHER` where it ends with
  the next entry. `holders` is a list for its own use. `TIME` is read once a batch (it moves inside a
  script before Redis 7.2) and is reported, so that clients notice a clock that jumps. `flagged` says
  that there may be waiters, reservations or tombstones: what writes one says how long it lives.
  Counters are written with `%.0f`, because `tostring` loses their last digits. `unenrolled` means
  that this server is no longer the one that the caller's connection enrolled.
]]
local FAILED = 'failed:'
local TOGETHER = 'with the next'
local call, unpackText = redis.call, struct.unpack
local entries, runId = ARGV[1], ARGV[2]
local flagged = call('EXISTS', flagKey) == 1
local time, nowMs, enrolled, quarantineMs, floorUs
local at, leaseKeys, owners = 1, {}, {}
local function flag(forMs)
  flagged = true
  if forMs > call('PTTL', flagKey) then call('SET', flagKey, '1', 'PX', forMs) end
end
local function run(verb, token, fence, leaseMs, waitMs, waiter, count, resources, holders)
  if verb == 'acquire' then
    --- @include "acquire"
  elseif verb == 'release' then
    --- @include "release"
  elseif verb == 'extend' then
    --- @include "extend"
  elseif verb == 'confirm' then
    --- @include "confirm"
  elseif verb == 'heal' then
    --- @include "heal"
  elseif verb == 'waited-for' then
    --- @include "waited-for"
  elseif verb == 'inspect' then
    --- @include "inspect"
  elseif verb == 'trial' then
    --- @include "trial"
  end
  error('unknown verb')
end
local resources, holders = {''}, {false}
local hasEscapes = string.find(entries, '\1', 1, true)
local size, entry, answered, marks, replies = #entries, 0, 0, ''
while at <= size do
  local verb, token, fence, leaseMs, waitMs, waiter, another
  verb, token, fence, leaseMs, waitMs, waiter, resources[1], another, at = unpackText('ssssssss', entries, at)
  local count = 1
  while another ~= '' do
    count = count + 1
    resources[count] = another
    another, at = unpackText('s', entries, at)
  end
  if hasEscapes then
    local signs = {['\1'] = '\1', ['\2'] = '\0'}
    token = string.gsub(token, '\1(.)', signs)
    for i = 1, count do resources[i] = string.gsub(resources[i], '\1(.)', signs) end
  end
  entry = entry + 1
  local ok, reply = pcall(run, verb, token, fence, leaseMs, waitMs, waiter, count, resources, holders)
  if not ok then reply = {FAILED, type(reply) == 'table' and reply.err or tostring(reply)} end
  if reply ~= TOGETHER then
    if reply ~= true then
      replies = replies or {}
      marks = marks .. string.rep('+', answered - #marks) .. string.rep('*', entry - answered)
      for i = #replies + 1, #replies + entry - answered do replies[i] = reply end
    end
    answered = entry
    if leaseKeys[1] then leaseKeys, owners = {}, {} end
  end
end
local head = marks .. string.rep('+', entry - #marks)
if time then head = head .. ' ' .. time[1] .. ' ' .. time[2] end
return replies and {head, unpack(replies)} or head
