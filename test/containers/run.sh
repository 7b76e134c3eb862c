#!/usr/bin/env bash
# npm run test:containers: everything that needs a Docker engine.
#
# Takes the engine that answers. Without one, as root on Debian, it starts one of its own with stand-ins for the images
# (scripts/docker-stand-in.sh) and ends it afterwards. Where neither can be had it says why, and that is no failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() {
  echo "skipped: the tests of containers, because $1"
  exit 0
}

if ! docker info >/dev/null 2>&1; then
  [ "$(id -u)" -eq 0 ] || skip 'no Docker engine answers, and only root can start one'
  command -v apt-get >/dev/null || skip 'no Docker engine answers, and this is no Debian on which one could be started'
  DOCKER_STAND_IN=$(mktemp -d)
  export DOCKER_STAND_IN
  trap 'scripts/docker-stand-in.sh stop' EXIT
  variables=$(scripts/docker-stand-in.sh start compose) ||
    skip 'no Docker engine answers, and none could be started; the reason stands above'
  eval "$variables"
fi
CONTAINERS=yes npx vitest run test/containers test/testing/containers.test.ts
