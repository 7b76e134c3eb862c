-- The server's time. It is read once a batch, by the first verb that needs it.
if not nowMs then
  time = call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
end
