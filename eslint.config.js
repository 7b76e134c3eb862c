import eslint from '@eslint/js'
import imports from 'eslint-plugin-import-x'
import tseslint from 'typescript-eslint'

/**
 * The rooms of `src`, and which of them each may import. The four of the core come first; they
 * import nothing from below them. What stands in `src` itself is for all.
 */
const ROOMS = {
  lock: [],
  redlock: ['lock'],
  line: [],
  worker: ['lock', 'line'],
  sharded: ['lock', 'line', 'worker'],
  fenced: [],
  // An entry of a service joins OpenTelemetry to the channel.
  services: ['lock', 'telemetry'],
  telemetry: [],
  testing: ['lock', 'redlock', 'services', 'tools/verify'],
  'tools/verify': [],
  'tools/operator': ['lock', 'redlock', 'line', 'worker', 'services'],
  'tools/dashboard': ['lock', 'redlock', 'services', 'tools/operator'],
  'tools/cli': [
    ...['lock', 'redlock', 'line', 'worker', 'services', 'telemetry'],
    ...['tools/operator', 'tools/dashboard', 'tools/verify'],
  ],
}

/** Packages that only these rooms know. */
const PACKAGES = {
  bullmq: ['line', 'worker', 'sharded', 'tools/operator', 'tools/cli', 'tools/dashboard'],
  ioredis: ['redlock', 'line', 'testing', 'tools/operator'],
  commander: ['tools/cli'],
  '@opentelemetry/api': ['telemetry', 'tools/cli'],
}

const rooms = Object.entries(ROOMS).map(([room, allowed]) => {
  const others = Object.keys(ROOMS).filter((one) => one !== room && !allowed.includes(one))
  const packages = Object.keys(PACKAGES).filter((name) => !PACKAGES[name].includes(room))
  return {
    files: [`src/${room}/**/*.ts`],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              group: others.flatMap((one) => [`**/${one}/**`]),
              message: `${room}/ may import ${allowed.join(', ') || 'no other room'}`,
            },
            ...(packages.length > 0
              ? [{ group: packages, message: `${room}/ does not know this package` }]
              : []),
          ],
        },
      ],
    },
  }
})

/** Names of types and interfaces of `src`, with the file that declares each. */
const declared = new Map()

const local = {
  rules: {
    'one-declaration': {
      create(context) {
        const check = ({ id }) => {
          const before = declared.get(id.name)
          if (before !== undefined && before !== context.filename) {
            context.report({ node: id, message: `${id.name} is declared in ${before} too` })
          } else declared.set(id.name, context.filename)
        }
        return { TSInterfaceDeclaration: check, TSTypeAliasDeclaration: check }
      },
    },
  },
}

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
  ...rooms,
  {
    files: ['src/**/*.ts'],
    plugins: { local, import: imports },
    settings: {
      'import-x/extensions': ['.ts'],
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts'] },
      'import-x/resolver-next': [imports.createNodeResolver({ extensions: ['.ts'] })],
    },
    rules: { 'local/one-declaration': 'error', 'import/no-cycle': 'error' },
  },
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
          .concat([
            'fetch',
            'setTimeout',
            'clearTimeout',
            'setInterval',
            'addEventListener',
            'confirm',
          ])
          .map((name) => [name, 'readonly']),
      ),
    },
  },
)
