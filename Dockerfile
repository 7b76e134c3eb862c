# The example workers. They run from source, so the development dependencies (tsx, pg) are part of it.
FROM node:22-slim

WORKDIR /app
COPY package.json package-lock.json ./
# Not `npm ci`: it refuses a lock file that lacks another platform's optional packages.
RUN npm install --ignore-scripts --no-audit --no-fund && npm cache clean --force
COPY tsconfig.json ./
COPY src src
COPY workers workers

USER node
ENV NODE_ENV=production
# Not through npm or npx: they would stand between a signal and the worker.
ENTRYPOINT ["node", "--import", "tsx"]
CMD ["workers/customer-ledger.ts"]
