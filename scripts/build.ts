/**
 * `npm run build`: makes `dist/`, what the package publishes.
 *
 * The package is CommonJS, as BullMQ and ioredis are in Node.js. `import` and `require` load the
 * same files, so a process has one copy of every class and of all state. Node.js and TypeScript
 * find the names for `import` in them.
 *
 * rollup joins the modules of each entry into one file, and what entries share into further files:
 * a hundred small files would take longer to load. Dependencies stay outside. The types are joined
 * in the same way. Nothing is minified: a stack trace has the names of the sources.
 */
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { transform } from 'esbuild'
import { rollup, type OutputOptions, type Plugin } from 'rollup'
import { dts } from 'rollup-plugin-dts'
import ts from 'typescript'
import { embeddedModule } from './embed-files.ts'
import { ENTRIES, PROGRAM } from './entries.ts'

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
/** The oldest that `engines` allows. */
const TARGET = 'node20.19'

/**
 * These exist only as ES modules, which Jest cannot load from CommonJS: they become a part of the
 * package. They stay among its dependencies, which brings their licenses and names them to audits.
 */
const INSIDE = ['p-retry', 'is-network-error']

/** What loads `ioredis` late; in CommonJS it is `require`, which bundlers follow. */
const LATE_REQUIRE = /\bcreateRequire\(import\.meta\.url\)\(/g

const sources: Plugin = {
  name: 'sources',
  resolveId: (id) => {
    if (INSIDE.includes(id)) return fileURLToPath(import.meta.resolve(id))
    return /^[./]/.test(id) ? undefined : { id, external: true }
  },
  load: (id) => embeddedModule(id),
  async transform(text, id) {
    if (!id.endsWith('.ts')) return undefined
    const { code } = await transform(text.replaceAll(LATE_REQUIRE, 'require('), {
      ...{ loader: 'ts', target: TARGET, charset: 'utf8', sourcefile: id },
    })
    return { code, map: null }
  },
}

const OUTPUT: OutputOptions = {
  ...{ dir: DIST, format: 'cjs', chunkFileNames: 'shared/[name].js' },
  ...{ generatedCode: { preset: 'es2015', symbols: false }, externalLiveBindings: false },
  ...{ exports: 'named', interop: 'auto', hoistTransitiveImports: false, freeze: false },
}

async function buildCode(): Promise<void> {
  const bundle = await rollup({
    input: inputs({ ...ENTRIES, ...PROGRAM }, (source) => join(ROOT, source)),
    plugins: [sources],
    // Only joining OpenTelemetry to the channel does something when it is loaded.
    treeshake: { moduleSideEffects: (id) => id.endsWith('telemetry/join.ts') },
  })
  await bundle.write(OUTPUT)
  await bundle.close()
  chmodSync(join(DIST, 'cli.js'), 0o755)
}

function inputs(
  entries: Readonly<Record<string, string>>,
  fileOf: (source: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(entries).map(([name, source]) => [name, fileOf(source)]))
}

const TYPES = join(DIST, 'types')
const TS_MODULE = /(from '\.[^']*|import\('\.[^']*)\.ts'/g

async function buildTypes(): Promise<void> {
  declareSources()
  const bundle = await rollup({
    input: inputs(ENTRIES, typesOf),
    external: (id) => !/^[./]/.test(id),
    plugins: [dts()],
  })
  await bundle.write({ dir: DIST, format: 'es', chunkFileNames: sharedTypes })
  await bundle.close()
  rmSync(TYPES, { recursive: true })
}

/** rollup calls what `clock.d.ts` has `clock.d`. */
function sharedTypes({ name }: { readonly name: string }): string {
  return `shared/${name.replace(/\.d$/, '')}.d.ts`
}

/** Without a type check, which `npm run typecheck` is. */
function declareSources(): void {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) =>
    readFileSync(path, 'utf8'),
  ) as { readonly config: { readonly compilerOptions: object } }
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT, {
    ...{ noEmit: false, noCheck: true, emitDeclarationOnly: true, declaration: true },
    ...{ isolatedDeclarations: true, stripInternal: true, rootDir: ROOT, outDir: TYPES },
  })
  const roots = Object.values(ENTRIES).map((source) => join(ROOT, source))
  const { diagnostics } = ts.createProgram(roots, options).emit(undefined, (path, text) => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text.replaceAll(TS_MODULE, "$1.js'"))
  })
  if (diagnostics.length > 0) throw new Error(ts.formatDiagnostics(diagnostics, FORMAT))
}

const FORMAT: ts.FormatDiagnosticsHost = {
  getCanonicalFileName: (name) => name,
  getCurrentDirectory: () => ROOT,
  getNewLine: () => '\n',
}

function typesOf(source: string): string {
  return join(TYPES, source.replace(/\.ts$/, '.d.ts'))
}

rmSync(DIST, { recursive: true, force: true })
mkdirSync(DIST)
writeFileSync(join(DIST, 'package.json'), '{ "type": "commonjs" }\n')
await Promise.all([buildCode(), buildTypes()])
