#!/usr/bin/env bash
# A Docker engine and images, for a Debian machine that has no engine and cannot pull. The images are stand-ins: programs of
# this machine, the libraries they link to, and busybox.
#
#   eval "$(sudo scripts/docker-stand-in.sh start)"            an engine and Redis; prints the variables for the tests
#   eval "$(sudo scripts/docker-stand-in.sh start compose)"    and what Dockerfile and docker-compose.yml are made of
#   FLEET=containers npm test
#   sudo scripts/docker-stand-in.sh stop
#
# Everything lies in one directory (DOCKER_STAND_IN, or one in /tmp), and `stop` ends only the engine in there.
set -euo pipefail

root=${DOCKER_STAND_IN:-/tmp/bullmq-redlock-docker}
socket=$root/docker.sock
project=$(cd "$(dirname "$0")/.." && pwd)
# The names that docker-compose.yml and the Dockerfile give, whatever versions they say.
image_of() {
  grep -ohP "(image:|^FROM) \K$1\S*" "$project/docker-compose.yml" "$project/Dockerfile" | head -n 1
}

say() { echo "$*" >&2; }
docker_here() { docker --host "unix://$socket" "$@"; }

need_packages() {
  local missing=()
  command -v dockerd >/dev/null || missing+=(docker.io)
  command -v redis-server >/dev/null || missing+=(redis-server)
  if [ "$1" = compose ]; then
    command -v docker-compose >/dev/null || missing+=(docker-compose)
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
    command -v prometheus >/dev/null || missing+=(prometheus)
  fi
  [ ${#missing[@]} -eq 0 ] && return
  say "Installing ${missing[*]}, without starting their services"
  # Debian's switch against services that a package starts; left alone where there is one.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" >&2
}

start_engine() {
  mkdir -p "$root"
  ip link show docker0 >/dev/null 2>&1 || touch "$root/made-bridge"
  # Ports are published by Docker's proxy process alone, so the firewall of the machine stays as it is.
  # Without that firewall no name server is reached from inside, so a name that is not there is not waited for long.
  dockerd --data-root "$root/data" --exec-root "$root/exec" --pidfile "$root/dockerd.pid" \
    --host "unix://$socket" --storage-driver overlay2 \
    --iptables=false --ip6tables=false --dns-opt timeout:1 --dns-opt attempts:1 </dev/null >"$root/dockerd.log" 2>&1 &
  local engine=$!
  for _ in $(seq 150); do
    docker_here info >/dev/null 2>&1 && return
    if ! kill -0 "$engine" 2>/dev/null; then break; fi
    sleep 0.2
  done
  say "dockerd did not start; the end of $root/dockerd.log:"
  tail -n 20 "$root/dockerd.log" >&2
  exit 1
}

# Unpacked, not installed: the machine keeps the busybox it has.
fetch_busybox() {
  local download
  download=$(mktemp -d)
  (
    cd "$download"
    # apt gives up its privileges for a download, and then needs to write here.
    chmod 777 .
    apt-get -q download busybox-static >&2
    dpkg -x busybox-static_*.deb unpacked
    cp unpacked/bin/busybox "$1"
  )
  rm -rf "$download"
}

new_tree() {
  local tree
  tree=$(mktemp -d "$root/tree-XXXXXX")
  chmod 755 "$tree"
  mkdir -p "$tree"/{bin,tmp,data,etc,proc,sys,dev,run,usr/bin,usr/local/bin,home/node}
  chmod 1777 "$tree/tmp"
  printf '%s:/bin/sh\n' 'root:x:0:0:root:/root' 'postgres:x:70:70:postgres:/var/lib/postgresql' \
    'node:x:1000:1000:node:/home/node' >"$tree/etc/passwd"
  printf '%s\n' 'root:x:0:' 'postgres:x:70:' 'node:x:1000:' >"$tree/etc/group"
  chown 1000:1000 "$tree/home/node"
  if [ ! -e "$root/busybox" ]; then fetch_busybox "$root/busybox"; fi
  cp "$root/busybox" "$tree/bin/busybox"
  chroot "$tree" /bin/busybox --install -s /bin
  ln -s /bin/env "$tree/usr/bin/env"
  echo "$tree"
}

libraries_of() { ldd "$@" | grep -oE '(^\s|=> )/[^ ]*' | grep -o '/.*' | sort -u; }

# A program under the name by which it is called, with its libraries.
add_program() {
  local tree=$1 program
  program=$(readlink -f "$(command -v "$2")")
  cp "$program" "$tree/usr/local/bin/$(basename "$2")"
  libraries_of "$program" | xargs cp --parents -Lt "$tree"
}

import_tree() {
  local tree=$1 image=$2
  shift 2
  tar -C "$tree" -c . |
    docker_here import --change 'ENV PATH=/usr/local/bin:/bin:/usr/bin' "$@" - "$image" >/dev/null
  rm -rf "$tree"
  say "made a stand-in for $image"
}

build_redis() {
  local tree
  tree=$(new_tree)
  add_program "$tree" redis-server
  add_program "$tree" redis-cli
  import_tree "$tree" "$1" --change 'WORKDIR /data' --change 'EXPOSE 6379' \
    --change 'CMD ["redis-server"]'
}

build_node() {
  local tree npm
  tree=$(new_tree)
  add_program "$tree" node
  npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")
  mkdir -p "$tree/usr/local/lib/node_modules" "$tree/etc/ssl/certs"
  cp -r "$npm" "$tree/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$tree/usr/local/bin/npm"
  ln -s ../lib/node_modules/npm/bin/npx-cli.js "$tree/usr/local/bin/npx"
  # Whatever authorities this machine trusts.
  cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
  import_tree "$tree" "$1" --change 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt' \
    --change 'CMD ["node"]'
}

build_postgres() {
  local tree server share
  tree=$(new_tree)
  server=$(compgen -G '/usr/lib/postgresql/*' | sort -V | tail -n 1)
  share=/usr/share/postgresql/$(basename "$server")
  cp --parents -rLt "$tree" "$server/bin" "$server/lib" "$share"
  libraries_of "$server"/bin/* "$server"/lib/{plpgsql,dict_snowball,libpqwalreceiver}.so 2>/dev/null |
    xargs cp --parents -Lt "$tree"
  [ -d /usr/share/zoneinfo ] && cp --parents -rt "$tree" /usr/share/zoneinfo
  mkdir -p "$tree/var/run/postgresql" "$tree/var/lib/postgresql/data"
  chown -R 70:70 "$tree/var/run/postgresql" "$tree/var/lib/postgresql"
  cat >"$tree/usr/local/bin/entrypoint" <<'SCRIPT'
#!/bin/sh
set -e
data=/var/lib/postgresql/data
chown postgres "$data"
if [ ! -s "$data/PG_VERSION" ]; then
  su postgres -c "initdb --auth trust --locale C --encoding UTF8 --username '$POSTGRES_USER' '$data'"
  echo 'host all all all trust' >>"$data/pg_hba.conf"
  su postgres -c "pg_ctl -D '$data' -w -o '-c listen_addresses=' start"
  su postgres -c "createdb --username '$POSTGRES_USER' '$POSTGRES_DB'" || true
  su postgres -c "pg_ctl -D '$data' -w stop"
fi
exec su postgres -c "exec postgres -D '$data' -c listen_addresses='*'"
SCRIPT
  chmod 755 "$tree/usr/local/bin/entrypoint"
  import_tree "$tree" "$1" --change "ENV PATH=$server/bin:/usr/local/bin:/bin:/usr/bin" \
    --change 'ENTRYPOINT ["/usr/local/bin/entrypoint"]'
}

build_prometheus() {
  local tree
  tree=$(new_tree)
  add_program "$tree" prometheus
  mkdir -p "$tree/prometheus"
  import_tree "$tree" "$1" --change 'WORKDIR /prometheus' --change 'ENTRYPOINT ["prometheus"]' \
    --change 'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]'
}

# build_NAME, image
make() { docker_here image inspect "$2" >/dev/null 2>&1 || "build_$1" "$2"; }

start() {
  [ "$(id -u)" -eq 0 ] || { say 'A Docker engine needs root'; exit 1; }
  need_packages "$1"
  docker_here info >/dev/null 2>&1 || start_engine
  make redis redis:7-alpine
  if [ "$1" = compose ]; then
    make redis "$(image_of redis:)"
    make node "$(image_of node:)"
    make postgres "$(image_of postgres:)"
    make prometheus "$(image_of prom/prometheus:)"
  fi
  say "$(docker_here version --format 'Docker engine {{.Server.Version}}') in $root"
  # The reaper of testcontainers is an image too, and cannot be pulled either. Without rules in the machine's firewall a build
  # reaches the npm registry only through the machine's own network.
  echo "export DOCKER_HOST=unix://$socket TESTCONTAINERS_RYUK_DISABLED=true DOCKER_BUILDKIT=0 BUILD_NETWORK=host"
}

stop() {
  local pid
  if [ -e "$root/dockerd.pid" ]; then
    pid=$(cat "$root/dockerd.pid")
    # Containers and networks that a killed test run left behind.
    docker_here ps -aq | xargs -r docker --host "unix://$socket" rm -fv >/dev/null
    docker_here network prune --force >/dev/null
    kill "$pid"
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
    if kill -0 "$pid" 2>/dev/null; then
      say "dockerd ($pid) is still running after 20 seconds"
      exit 1
    fi
  fi
  if [ -e "$root/made-bridge" ]; then ip link delete docker0 || true; fi
  # What a container in the machine's own network leaves mounted.
  umount "$root"/exec/netns/* 2>/dev/null || true
  rm -rf "$root"
}

case "${1:-} ${2:-redis}" in
  'start redis' | 'start compose') start "${2:-redis}" ;;
  'stop redis') stop ;;
  *)
    say "Usage: $0 start [compose]|stop"
    exit 2
    ;;
esac
