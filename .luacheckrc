-- What Redis gives a script; in the scripts of a line also what comes before them: BullMQ's texts as
-- functions, and BullMQ's arguments.
std = {
  globals = {'ARGV', 'theirs'},
  read_globals = {
    'redis', 'cjson', 'cmsgpack', 'struct', 'KEYS', 'math', 'string', 'table', 'pcall', 'error',
    'ipairs', 'pairs', 'next', 'select', 'tonumber', 'tostring', 'type', 'unpack',
    'bullmq', 'bullmqWith', 'bullmqPromote',
  },
}
max_line_length = 120
