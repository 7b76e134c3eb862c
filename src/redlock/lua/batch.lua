--[[
  Many calls in one trip: runs the verbs that its entries name. Each verb runs atomically and is safe
  to run twice. `wire/batch.ts` carries it to every enrolled master.

  ARGV  1 the entries, one behind the other and each ended by NUL: the letter of a short form and
        its parameters, or `J` and [name of the procedure, its arguments …] as JSON
        2 run id of the server that the caller enrolled
  Returns  the server's time in ms where an entry read it, a space, and one mark for each entry:
           `+` usual, `*` not. Where there is a `*`: a list of this text and of their replies,
           what the procedure returned | failed:, error message
  Keeps: an entry that fails does not keep the others from running. A lock master is never a
  cluster, so no keys are named.

  Common to all: a reply is an array that begins with a word; the usual reply of a short form is
  one character. `TIME` is read once a batch (it moves inside a script before Redis 7.2) and is
  reported, so that clients notice a clock that jumps. Counters travel as strings and are written
  with `%.0f`, because Lua's `tostring` loses the last digits of a microsecond count. `unenrolled`
  means that this server is not, or no longer, the one that the caller's connection enrolled: it
  restarted, lost its data, or serves another fleet.
]]
local FAILED = 'failed:'
local RESERVED = 'reserved@waiting clients'
local call, sub, unpackText = redis.call, string.sub, struct.unpack
local entries, runId = ARGV[1], ARGV[2]
--- @include "record"
local procedures
local function procedure(name)
  if not procedures then
    if not nowMs then readRecord() end
    --- @include "keys"
    --- @include "acquire"
    --- @include "confirm"
    --- @include "extend"
    --- @include "heal"
    --- @include "release"
    --- @include "withdraw"
    --- @include "inspect"
    --- @include "trial"
    procedures = {
      acquire = acquire, confirm = confirm, extend = extend, heal = heal, release = release,
      withdraw = withdraw, inspect = inspect, trial = trial,
    }
  end
  return procedures[name]
end
local at, size = 1, #entries
local function run()
  local letter = sub(entries, at, at)
  if letter == 'A' then
    local resource, token, leaseMs, proposal, waitMs, waiter
    resource, token, leaseMs, proposal, waitMs, waiter, at = unpackText('ssssss', entries, at + 1)
    --- @include "acquire-usual"
  end
  if letter == 'E' then
    local resource, token, leaseMs, fence
    resource, token, leaseMs, fence, at = unpackText('ssss', entries, at + 1)
    --- @include "extend-usual"
  end
  if letter == 'R' then
    local resource, token, tombstoneMs, graceMs, waiter
    resource, token, tombstoneMs, graceMs, waiter, at = unpackText('sssss', entries, at + 1)
    --- @include "release-usual"
  end
  if letter ~= 'J' then error('unknown entry') end
  local text
  text, at = unpackText('s', entries, at + 1)
  local entry = cjson.decode(text)
  return procedure(entry[1])(unpack(entry, 2))
end
local count, marks, replies = 0, nil, nil
while at <= size do
  local from = at
  local ok, reply = pcall(run)
  local usual = ok and reply == true
  count = count + 1
  if not ok then
    reply = {FAILED, type(reply) == 'table' and reply.err or tostring(reply)}
    if at == from then at = size + 1 end
  end
  if not usual then
    if not marks then
      marks, replies = {}, {false}
      for i = 1, count - 1 do marks[i] = '+' end
    end
    replies[#replies + 1] = reply
  end
  if marks then marks[count] = usual and '+' or '*' end
end
if not marks then return (nowMs or '') .. ' ' .. string.rep('+', count) end
replies[1] = (nowMs or '') .. ' ' .. table.concat(marks)
return replies
