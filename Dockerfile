# The command line and the example workers, compiled, as a user without rights. Your own image for `work` looks the same.
#
#   docker build -t bullmq-redlock .
#   docker run --rm bullmq-redlock doctor --master redis://lock-1:6379 …

FROM node:22-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Not `npm ci`: it refuses a lock file that lacks another platform's optional packages.
RUN npm install --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY src src
COPY scripts scripts
COPY workers workers
# With everything that is no TypeScript: pages, the strikes.
RUN npx tsc --noEmit false --outDir build \
 && find src workers -type f ! -name '*.ts' -exec cp --parents '{}' build/ ';' \
 && cp package.json build/

FROM node:22-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# The versions of the lock file: what the package depends on, its peers, and what /metrics needs.
RUN npm pkg delete devDependencies peerDependencies \
 && npm install --ignore-scripts --no-audit --no-fund $(node -p " \
      const { packages } = require('./package-lock.json'); \
      ['bullmq', 'ioredis', 'pg', 'node-zookeeper-client', '@opentelemetry/sdk-metrics', '@opentelemetry/exporter-prometheus'].map((name) => name + '@' + packages['node_modules/' + name].version).join(' ')")

FROM node:22-slim
WORKDIR /app
ENV NODE_ENV=production
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/build ./
USER node
EXPOSE 9464
# Alive as long as the process answers; ready (/readyz) is for whoever sends it traffic, and nobody does.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "--eval", "fetch('http://127.0.0.1:9464/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Not through npm or npx: they would stand between a signal and the worker.
ENTRYPOINT ["node", "src/tools/cli/main.js"]
CMD ["work", "workers/customer-ledger.js", "--health-port", "9464"]
