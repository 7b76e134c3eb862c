-- What Redis gives a script.
std = {read_globals = {
  'redis', 'cjson', 'cmsgpack', 'struct', 'KEYS', 'ARGV', 'math', 'string', 'table', 'pcall', 'error',
  'ipairs', 'pairs', 'next', 'select', 'tonumber', 'tostring', 'type', 'unpack',
}}
max_line_length = 120
