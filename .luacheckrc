-- What Redis gives a script; in the scripts of a line also what comes before them: BullMQ's texts as
-- functions, and BullMQ's arguments; in those of the lock what a client's calls have in common.
std = {
  globals = {'ARGV', 'KEYS', 'theirs'},
  read_globals = {
    'redis', 'cjson', 'cmsgpack', 'struct', 'math', 'string', 'table', 'pcall', 'error',
    'ipairs', 'pairs', 'next', 'select', 'setmetatable', 'tonumber', 'tostring', 'type', 'unpack',
    'bullmq',
    'maxLeaseMs', 'fenceTtlMs', 'maxClockSkewMs', 'fleetSize', 'leasePrefix', 'fencePrefix',
    'waitersPrefix', 'nextPrefix', 'tombstonePrefix', 'flagKey', 'masterKey', 'releasesChannel',
  },
}
max_line_length = 120
