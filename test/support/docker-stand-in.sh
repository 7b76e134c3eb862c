#!/usr/bin/env bash
# A Docker engine and an image under the name redis:7-alpine, for a Debian machine that has no engine and cannot
# pull images. The image is a stand-in: Debian's redis-server, the libraries it links to, and busybox.
#
#   eval "$(sudo test/support/docker-stand-in.sh start)"   prints the variables for the tests
#   FLEET=containers npm test
#   sudo test/support/docker-stand-in.sh stop
#
# Everything lies in one directory (DOCKER_STAND_IN, or one in /tmp), and `stop` ends only the engine in there.
set -euo pipefail

root=${DOCKER_STAND_IN:-/tmp/bullmq-redlock-docker}
socket=$root/docker.sock
image=redis:7-alpine

say() { echo "$*" >&2; }
docker_here() { docker --host "unix://$socket" "$@"; }

need_packages() {
  local missing=()
  command -v dockerd >/dev/null || missing+=(docker.io)
  command -v redis-server >/dev/null || missing+=(redis-server)
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
  dockerd --data-root "$root/data" --exec-root "$root/exec" --pidfile "$root/dockerd.pid" \
    --host "unix://$socket" --storage-driver overlay2 \
    --iptables=false --ip6tables=false </dev/null >"$root/dockerd.log" 2>&1 &
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

build_image() {
  local tree program
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,tmp,data,usr/local/bin,etc,proc,sys,dev}
  chmod 1777 "$tree/tmp"
  echo 'root:x:0:0:root:/data:/bin/sh' >"$tree/etc/passwd"
  fetch_busybox "$tree/bin/busybox"
  chroot "$tree" /bin/busybox --install -s /bin
  for program in redis-server redis-cli; do
    program=$(readlink -f "$(command -v "$program")")
    cp "$program" "$tree/usr/local/bin/$(basename "$program")"
    ldd "$program" | grep -o '/[^ ]*' | sort -u | xargs cp --parents -Lt "$tree"
  done
  # Debian's redis-server is a link to redis-check-rdb, which goes by its name.
  [ -e "$tree/usr/local/bin/redis-server" ] ||
    mv "$tree/usr/local/bin/redis-check-rdb" "$tree/usr/local/bin/redis-server"
  tar -C "$tree" -c . | docker_here import \
    --change 'ENV PATH=/usr/local/bin:/bin' --change 'WORKDIR /data' \
    --change 'EXPOSE 6379' --change 'CMD ["redis-server"]' - "$image" >&2
  rm -rf "$tree"
}

start() {
  [ "$(id -u)" -eq 0 ] || { say 'A Docker engine needs root'; exit 1; }
  need_packages
  docker_here info >/dev/null 2>&1 || start_engine
  docker_here image inspect "$image" >/dev/null 2>&1 || build_image
  say "$(docker_here version --format 'Docker engine {{.Server.Version}}') in $root, with $image"
  # The reaper of testcontainers is an image too, and cannot be pulled either.
  echo "export DOCKER_HOST=unix://$socket TESTCONTAINERS_RYUK_DISABLED=true"
}

stop() {
  local pid
  if [ -e "$root/dockerd.pid" ]; then
    pid=$(cat "$root/dockerd.pid")
    # Containers that a killed test run left behind.
    docker_here ps -aq | xargs -r docker --host "unix://$socket" rm -fv >/dev/null
    kill "$pid"
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
    if kill -0 "$pid" 2>/dev/null; then
      say "dockerd ($pid) is still running after 20 seconds"
      exit 1
    fi
  fi
  if [ -e "$root/made-bridge" ]; then ip link delete docker0 || true; fi
  rm -rf "$root"
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  *)
    say "Usage: $0 start|stop"
    exit 2
    ;;
esac
