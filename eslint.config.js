import eslint from '@eslint/js'
import tseslint from 'typescript-eslint'

/** A room may import from the rooms below it and from the leaves clock, errors and logger. */
const forbid = (from, layers, why) => ({
  files: [`src/${from}/**/*.ts`],
  rules: {
    'no-restricted-imports': [
      'error',
      { patterns: [{ group: layers.flatMap((layer) => [`**/${layer}/**`, layer]), message: why }] },
    ],
  },
})

const ABOVE = ['worker', 'operator', 'dashboard', 'cli', 'testing']
/**
 * Lock services beside Redlock, and stores that check its tokens: each an entry that knows its
 * server.
 */
const ENTRIES = ['postgres', 'etcd', 'zookeeper', 'fenced']

export default tseslint.config(
  { ignores: ['dist', 'coverage', 'examples/nestjs'] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        projectService: { allowDefaultProject: ['eslint.config.js'] },
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { ignoreRestSiblings: true }],
      '@typescript-eslint/no-invalid-void-type': 'off',
      'no-empty': ['error', { allowEmptyCatch: false }],
      // Prettier wraps code; this holds comments. Texts that are long stay whole.
      'max-len': [
        'error',
        {
          code: 100,
          ignoreStrings: true,
          ignoreTemplateLiterals: true,
          ignoreRegExpLiterals: true,
          ignoreUrls: true,
          ignorePattern: 'eslint-disable',
        },
      ],
    },
  },
  forbid(
    'redis',
    ['lock', 'redlock', 'telemetry', ...ABOVE, 'bullmq'],
    'redis/ knows ioredis and nothing above it',
  ),
  forbid(
    'telemetry',
    ['lock', 'redlock', 'redis', ...ABOVE, 'bullmq', 'ioredis'],
    'telemetry/ knows only what it is told',
  ),
  forbid(
    'lock',
    ['redlock', 'redis', ...ENTRIES, ...ABOVE, 'bullmq', 'ioredis'],
    'lock/ is the contract of every lock service and knows none of them',
  ),
  forbid(
    'redlock',
    [...ABOVE, 'bullmq', 'ioredis'],
    'redlock/ knows time and votes, not BullMQ or ioredis',
  ),
  ...ENTRIES.map((room) =>
    forbid(
      room,
      ['redlock', 'redis', ...ENTRIES.filter((one) => one !== room), ...ABOVE, 'bullmq', 'ioredis'],
      `${room}/ knows lock/ and its own server`,
    ),
  ),
  forbid(
    'worker',
    ['redlock', ...ENTRIES, 'operator', 'dashboard', 'cli', 'testing', 'ioredis'],
    'worker/ knows BullMQ, and a lock service only by its contract in lock/',
  ),
  forbid(
    'operator',
    ['dashboard', 'cli', 'testing', 'ioredis', 'commander'],
    'operator/ finds out, and cli/ and dashboard/ show it; connections belong to redis/',
  ),
  forbid(
    'dashboard',
    ['cli', 'testing', 'ioredis', 'bullmq', 'commander'],
    'dashboard/ shows what operator/ finds out',
  ),
  forbid(
    'testing',
    ['worker', 'operator', 'dashboard', 'cli', 'bullmq', 'commander'],
    'testing/ gives users a fleet of lock masters and nothing else',
  ),
  forbid('cli', ['testing', 'ioredis'], 'cli/ shows what operator/ finds out'),
  {
    files: ['src/**/*.ts'],
    ignores: ['src/clock.ts', 'src/testing/**'],
    rules: {
      'no-restricted-globals': [
        'error',
        { name: 'setTimeout', message: 'time goes through the Clock' },
        { name: 'setInterval', message: 'time goes through the Clock' },
        { name: 'performance', message: 'time goes through the Clock' },
      ],
      'no-restricted-syntax': [
        'error',
        {
          selector: "CallExpression[callee.object.name='Date'][callee.property.name='now']",
          message: 'time goes through the Clock',
        },
        { selector: 'ExportDefaultDeclaration', message: 'named exports only' },
      ],
    },
  },
  { files: ['**/*.js'], extends: [tseslint.configs.disableTypeChecked] },
  {
    files: ['src/tools/dashboard/page/*.js'],
    languageOptions: {
      globals: Object.fromEntries(
        ['document', 'location', 'history', 'performance', 'EventSource', 'URLSearchParams']
          .concat(['fetch', 'setTimeout', 'clearTimeout', 'setInterval', 'addEventListener'])
          .map((name) => [name, 'readonly']),
      ),
    },
  },
)
